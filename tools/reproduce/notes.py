"""Prose of the document: what the numbers are, and why they differ from the published ones."""
import published

HEAD = f"""# The published experiments, on the software GPU

Made by `./dev reproduce`, from commands that stand below each table; the raw results are in `build/reproduce/`.

**These are times of a model, not measurements.** The software GPU keeps virtual time from rates per kind of op
(`softgpu/models/*.json`), and `pooch simulate` plans from a profile of the program that ran on it. "In-core" is the same
program with memory enough. No GPU took part; the published numbers were measured on GPUs, with other programs. What can be
compared is which policy wins, by how much, and where memory ends.

* Overhead is extra time over in-core: +62 % time is −38 % throughput.
* The cap is the memory named, 16 GiB or 12 GiB; on a real device its context and other programs take some of it.
* "Figure only": the publication draws the number and does not write it.
* The networks are the trainer's own ([examples](../examples)). ReLU and addition work in place, and gradients are freed as
  soon as they are used.

Sources:

* {published.POOCH}
* {published.VDNN}
* {published.CHAINER}
* {published.LMS}"""

NOTES = {
    "figure 15": """The published order comes out, and `swap-all` gains over `swap-all-unscheduled` what is published. For ResNet-50
`swap-opt` gains more here and so leaves less to `pooch`: at batch 256 a fifth of the bytes must leave, and the search finds
which maps; how far the paper's memory was from 16 GiB is not said (see "Figure 17 with less memory"). GoogLeNet and AlexNet fit
whole at the published batches here, so `swap-opt` just keeps everything; the paper does not describe its AlexNet, the trainer's
has one tower of 64 to 384 channels. The last two rows are batches that do not fit.""",
    "figure 16": """As published, on the fast link there is little left between `swap-opt` and `pooch`.""",
    "figure 17": """* In-core at 128 is the published number because the model is calibrated to it ([softgpu](../softgpu/README.md)). Nothing
  else was fitted.
* The need at 640 is as published ("more than 50 GB"), so the networks keep the same maps; Table 3 counts 105 in both.
* `pooch` loses less than published, most of all at 640. The model knows neither Chainer's time on the host, nor fragments in
  its memory pool, nor copies that slow down compute. Which of them it is, is open.
* `superneurons` keeps as many maps as fit while they live: kept maps take memory in the middle of the iteration, the largest
  layers at its ends. So at 512 it keeps nearly what Table 3 counts, and the ratio at 384 and 512 is near the published
  range. The text gives the speed of neither policy there, so which of the two differs is open.
* At 256 the ratio is below the published 1.40. There the need is a quarter more than the memory, so a GiB decides
  how many of the large early maps `superneurons` moves: see the next table.""",
    "less memory": """At batch 256 the published ratio appears once a GiB or two less is left to the maps, as the CUDA context, the libraries'
workspaces and a pool's fragments would take. At 512 `superneurons` then has no plan any more: what its swap-ins and replays
take at once in the first stage grows with the batch, the same reason as at 640. So no single amount of memory
gives all the published points; what else differed is open.""",
    "other plan": """As published the other machine's plan is slower, and by far more here: on NVLink the model hides nearly every copy, so the plan
made there swaps nearly everything. It does not fail at 640: pooch's plans name positions, not times, so what is late is
waited for, and memory that a plan was checked for suffices on any link.""",
    "figure 18": """On the fast link the model hides nearly every copy; the paper lost up to 28 %. As with Figure 17 the reason is open.""",
    "table 3": """`superneurons` has the published classification but for four maps at the border, the same on both machines, as published.
`pooch` on PCIe is near it too. On NVLink the model finds hardly any copy that is not hidden, and by section 4.4.2 such maps
are swapped at once and never considered for keeping; on the paper's machine copies were exposed (it lost up to 28 %), so
more were kept and three recomputed. That NVLink swaps and PCIe recomputes comes out in both.""",
    "figure 19": """The published batches fit into 16 GiB here, so nothing has to move; the paper's AlexNet needed more. The last two batches do
not fit. At 3840 all three hide everything, in line with "less than 6.1 %"; at 4480 the operands of single ops at the beginning of
the network fill the memory: `superneurons` has no plan, `pooch` must move whole maps at the wrong time, `hybrid` moves parts.""",
    "figure 20": """As Figure 19.""",
    "figure 21": """The paper's network needs 58 GB for (448×224)×256 (section 2.2, Figure 4), the trainer's half of that. The last clip, twice
as large, needs nearly what the paper's largest did, and loses more than published. The reason is the
rate: the published axis ends at 2000 voxels/ms, the model runs at 30000, because its rate for grouped 3D
convolutions is that of any convolution. So the paper's copies had far more compute to hide behind, and `pooch` "rarely"
had to recompute. Only overheads can be compared.""",
    "figure 22": """As Figure 21.""",
    "vdnn": """OverFeat is not among the trainer's networks. vDNN's VGG-16 needs 28 GB at batch 256; of what those consist the lecture does
not say. The trainer's needs 16 GiB with ReLUs in place and, where each writes a map of its own (`--separate-relu`), 28 GB at
batch 229, which is the last row. There weights, their gradients and momentum (1.7 GB) lie beside the three maps of 2.9 GB that
a ReLU's backward pass has in hand, and the next layer's maps on their way, for which `vdnn-*` have no room. `vdnn-dyn` has no
loss where everything fits, as published, and 2 % at batch 256 where 18 % of the throughput is published. vDNN also changes
convolution algorithms for the sake of workspace: see the next table. `vdnn-conv` reaches the published average on AlexNet and VGG, not on GoogLeNet, whose
convolutions are small beside their inputs; open.""",
    "vdnn-tried": """Here the trainer tries algorithms and takes the fastest deterministic ones itself (`--benchmark-algorithms`), which
makes in-core training faster, and so the link's share larger. Policies in `:m` and `:p` choose among what it tried; "in-core" stays
the program's own choice. At batch 256 `vdnn-all:m`, which takes no workspace, loses by far the most; `vdnn-dyn:p` ends with
`vdnn-conv:p`, which fits, so its greedy step has nothing to do. The fastest algorithms of the model are fused Winograd, with
workspaces of a few MiB; trials get at most 256 MiB of it. So the choice costs little memory here, and does not explain the
published 18 %. At 28 GB (last row) no choice of algorithms helps: it is maps that do not fit.""",
    "vdnn-deep": """`vdnn-dyn` keeps only what fits as a whole and waits at every layer for its copy, so a few per cent remain; a plan that does
not wait (`hybrid`, and `swap-all` in the last table) has none. VGG-416 is planned with 58 GiB of the model's 64 GB host:
moving every map takes 60.4 GiB, so the policies that do have no plan.""",
    "batch factors": """As published deeper networks gain more, ResNet-152 at 2240 × 2240 cannot be trained in-core at all, and the synchronous
way fits more images than the asynchronous one for ResNet; for GoogLeNet one layer alone decides, so both are equal here. The
factors are two to three times the published ones: here a plan uses every byte of 16 GiB, Chainer has a memory pool
with fragments, workspaces, and steps in batch size that are not given. How much of it each explains is open. At 224 × 224
the published overheads are smaller; their times are of whole runs with files read and decoded, which hides copies, and
the paper itself finds the 70–80 % at 2240 × 2240 unexplained.""",
    "links": """Training that moves everything is bound by the link, so its speed-up tends to the ratio of the links, diluted by compute.
The networks and the two policies stand in nearly the published order, but the factors are larger. For ResNet the published
ones lie between those with 6 and with 12 GB/s on the slow side. So either two GPUs that share a switch get more than
half of it each in practice, or the fast link's 32 GB/s, an assumption, is too much; open. What does not move what it need not
(`hybrid`) hardly depends on the link.""",
    "checks": """"Holds" is required of this project. "Does not come out" marks a relation of a paper's that is not required; the reason stands
with its figure. The planner's time is of the machine that made this document and is no result.""",
}
