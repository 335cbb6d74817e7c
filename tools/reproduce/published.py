"""What the publications say, and where. A number that only a drawing shows is not here."""
import dataclasses

POOCH = ("Ito, Imai, Le Duc, Negishi, Kawachiya, Matsumiya, Endo: Profiling based Out-of-core Hybrid Method for Large "
         "Neural Networks, 2019 (arXiv 1907.05013)")
VDNN = ("Rhu, Gimelshein, Clemons, Zulfiqar, Keckler: vDNN: Virtualized Deep Neural Networks for Scalable, "
        "Memory-Efficient Neural Network Design, MICRO 2016; as told in a lecture by Y. Ito, 2016-10-28")
LMS = "Cho et al.: Large Model Support for Deep Learning in Caffe and Chainer, SysML 2018"
CHAINER = "Imai, Le Duc, Negishi, Sekiyama, Kawachiya: Performance evaluation of Out-of-Core training for large-scale neural network models (Chainer v3)"

FIGURE_ONLY = "figure only"


@dataclasses.dataclass(frozen=True)
class Published:
    source: str  # section and page
    says: str    # the numbers, in words
    values: dict = dataclasses.field(default_factory=dict)  # label → text for the table
    marks: dict = dataclasses.field(default_factory=dict)   # (label, series) → number for the chart

    def of(self, label):
        return self.values.get(label, FIGURE_ONLY)


FIGURE_15 = Published(
    "section 5.1, Figure 15, p. 11",
    "`swap-all` is 2–14 % faster than `swap-all-unscheduled`, `swap-opt` 1.4–3.0× as fast as `swap-all`, `pooch` for "
    "ResNet-50 1.45× as fast as `swap-opt`; for AlexNet the last two differ little. Batches are the drawing's labels for "
    "Figure 16; the text gives none.")
FIGURE_16 = Published(
    "section 5.1, Figure 16, p. 11",
    "`pooch` is the fastest here too; the differences between `swap-opt` and `pooch` are smaller than in Figure 15.")
FIGURE_17 = Published(
    "section 5.2, Figure 17, p. 12",
    "In-core 316 images/s, `pooch` 195 to 316; 13–38 % of the throughput lost where memory does not suffice (+15 to +62 % "
    "time). `pooch` is 1.40–1.73× as fast as `superneurons` from batch 256 to 512; `superneurons` runs out of memory at 640.",
    {"128": "316 images/s (in-core)", "640": "195 images/s (−38 %)"},
    {("128", "in-core"): 316, ("640", "pooch"): 195})
FIGURE_18 = Published(
    "section 5.2, Figure 18, p. 12", "`pooch` loses 2–28 % of the throughput (+2 to +39 % time).",
    {"640": "−28 %"})
TABLE_3 = {  # keep, swap, recompute; section 5.2, Table 3, p. 12
    ("v100-pcie3", "pooch"): (66, 12, 27), ("v100-pcie3", "superneurons"): (66, 21, 18),
    ("v100-nvlink2", "pooch"): (66, 36, 3), ("v100-nvlink2", "superneurons"): (66, 21, 18),
}
FIGURE_19 = Published(
    "section 5.2, Figures 19 and 20, p. 13",
    "`pooch` loses less than 6.1 % of the throughput (+6.5 % time) on both machines; `superneurons` differs little.")
FIGURE_21 = Published(
    "section 5.2, Figures 21 and 22, p. 13–14",
    "`pooch` loses less than 10 % of the throughput (+11 % time) on both machines, and is faster than `superneurons`.")
PLANNING = "about 2 minutes for ResNeXt-101 with 300 layers (section 5.2)"

VDNN_CONVENTIONAL = Published(
    "lecture, \"4. Methodology\" and \"5. Result: Performance\"",
    "`vdnn-conv` reaches 97 % of the baseline's throughput on average; `vdnn-dyn` balances memory and throughput much better. "
    "Everything else is drawn only. That VGG-16 (256) needs 28 GB and loses 18 % (+22 % time) stands in the paper's abstract.",
    {"vgg16 (256)": "−18 % (`vdnn-dyn`)"})
VDNN_DEEP = Published(
    "lecture, \"5. Result: Training Very Deep Networks\"",
    "`vdnn-dyn` \"did not incur any noticeable performance degradations\" on VGG-116 to VGG-416, batch 32.",
    {f"vgg{layers}": "not noticeable" for layers in (116, 216, 316, 416)})

# Imai et al., section 4.3.1, Table 1: the largest batch against in-core training, asynchronous and synchronous.
BATCH_FACTORS = {
    ("googlenet", 224): (1.2, 1.7), ("resnet50", 224): (3.0, 3.5), ("resnet152", 224): (5.0, 6.0),
    ("googlenet", 2240): (1.5, 2.3), ("resnet50", 2240): (4.0, 4.0), ("resnet152", 2240): None,
}
# Section 4.3.1, text: extra time of asynchronous out-of-core training.
OVERHEADS = {
    ("googlenet", 224): "20–30 %", ("resnet50", 224): "10–20 %", ("resnet152", 224): "10–20 %",
    ("googlenet", 2240): "70–80 %", ("resnet50", 2240): "70–80 %", ("resnet152", 2240): "in-core impossible",
}
# Section 4.3.2, Table 2: NVLink 1.0 (40 GB/s one way) against PCIe shared by two GPUs (8 GB/s); asynchronous, synchronous.
LINK_SPEEDUPS = {"googlenet": (1.84, 1.71), "resnet50": (2.64, 2.32), "resnet152": (2.66, 2.22)}
# Cho et al., section 2: Caffe, GoogLeNet 2240 × 2240, batch 5, four V100: NVLink 2.0 against PCIe.
CAFFE_LINK_SPEEDUP = 3.8
