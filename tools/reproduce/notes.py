"""Prose of the document: what the numbers are, and why they differ from the published ones."""
import published

HEAD = f"""# The published experiments, on the software GPU

Made by `./dev reproduce`, from commands that stand below each table; the raw results are in `build/reproduce/`.

**These are times of a model, not measurements.** The software GPU keeps virtual time from rates per kind of op
(`softgpu/models/*.json`), and `pooch simulate` plans from a profile of the program that ran on it. "In-core" is the same
program with memory enough. No GPU took part; the published numbers were measured on GPUs, with other programs. What can be
compared is which policy wins, by how much, and where memory ends.

* Overhead is extra time over in-core: +62 % time is −38 % throughput.
* Each number is for the better of the two ways to carry a plan out, remap and alias.
* The cap is the memory named, 16 GiB or 12 GiB; on a real device its context and other programs take some of it.
* "Figure only": the publication draws the number and does not write it.
* The network is the trainer's own ([examples](../examples)); it works in place where ReLU and addition allow it, as the
  published programs do.

Sources:

* {published.POOCH}
* {published.VDNN}
* {published.CHAINER}
* {published.LMS}"""

NOTES = {
    "figure 15": """The order is the published one in every row. With fetches in time `swap-all` gains as much as published. `swap-opt`
gains more here for ResNet-50 and GoogLeNet, so less is left for `pooch` to gain: the smaller part of the maps has to
leave at batch 256 the more keeping is worth, and this memory holds more (see Figure 17). GoogLeNet and AlexNet fit whole at
the published batches: the trainer's AlexNet is the one-tower network with 64 to 384 channels, the paper does not describe
its own. The last two rows are batches that do not fit.""",
    "figure 16": """As published, on the fast link there is little left between `swap-opt` and `pooch`.""",
    "figure 17": """* In-core at 128 is the published number: the model's rates were chosen by it (`softgpu/models/v100-pcie3.json`). Everything
  else is not fitted.
* The need at 640 is as published ("more than 50 GB"), so the networks keep the same maps; Table 3 counts 105 in both.
* `pooch` loses less than published, most of all at 640. A lower bound on any plan's overhead is within reach there, and the
  model knows neither Chainer's time on the host, nor fragments in its memory pool, nor copies that slow down compute.
  Which of them it is, is open.
* Over 1.9× at 512 was an error of this project's `superneurons`: it kept maps only as far as they fit beside the largest
  layer of the network, although kept maps are there in the middle of the iteration and the largest layers at its ends. Now it
  keeps as many as Table 3 says, and the ratio at 384 and 512 is near the published range.
* At 256 the ratio is below the published 1.40. There the need is a quarter more than the memory, so a GiB decides
  how many of the large early maps `superneurons` moves: see the next table.""",
    "less memory": """At batch 256 the published ratio appears once a GiB or two less is left to the maps, as the CUDA context, the libraries'
workspaces and a pool's fragments would take. At 512 `superneurons` then has no plan any more: what its swap-ins and replays
take at once in the first stage grows with the batch, the same reason as at 640. So no single amount of memory
gives all the published points; what else differed is open.""",
    "other plan": """As published the other machine's plan is slower, and by far more here: on NVLink the model hides nearly every copy, so the plan
made there swaps nearly everything. It does not fail at 640: pooch's plans name positions, not times, so what is late is
waited for, and memory that a plan was checked for suffices on any link.""",
    "table 3": """`superneurons` has the published classification but for four maps at the border, the same on both machines, as published.
`pooch` on PCIe is near it too. On NVLink the model finds hardly any copy that is not hidden, and by section 4.4.2 such maps
are swapped at once and never considered for keeping; on the paper's machine copies were exposed (it lost up to 28 %), so
more were kept and three recomputed. That NVLink swaps and PCIe recomputes comes out in both.""",
    "figure 19": """The published batches fit into 16 GiB here (need 10 to 12 GiB), so nothing has to move; the paper's AlexNet needed
more. The last two batches do not fit: there `pooch` and `superneurons` are to be compared with the published +6.5 %.""",
    "figure 20": """As Figure 19.""",
    "figure 21": """The paper's network needs 58 GB for (448×224)×256 (section 2.2, Figure 4), the trainer's 24 GiB: batch norm's and ReLU's
results share memory here. The last clip, twice as large, needs about what the paper's largest did. Rates of voxels differ
because a model's rate for grouped 3D convolutions is that of any convolution; cuDNN 7's was far lower, which also gave the
paper's copies more time to hide behind. Only overheads can be compared.""",
    "figure 22": """As Figure 21.""",
    "vdnn": """OverFeat is not among the trainer's networks. The trainer's VGG-16 needs 16 GiB at batch 256, not 28 GB: gradients are freed
as soon as they are used, where vDNN's baseline keeps them all. `vdnn-all` loses little on VGG and much on networks with
cheap layers, and `vdnn-dyn` has no loss where everything fits, as published. `vdnn-conv` reaches the published average on VGG,
not on GoogLeNet: its convolutions are small beside their inputs, and the algorithms stay the program's own here (vDNN's `:m` and
`:p` change them).""",
    "vdnn-deep": """`vdnn-dyn` keeps only what fits as a whole and waits at every layer for its copy, so a few per cent remain; a plan that does
not wait (`hybrid`, and `swap-all` in the last table) has none. VGG-416 is planned with 58 GiB of the model's 64 GB host:
moving every map takes 60.4 GiB, so the policies that do have no plan.""",
    "vgg 28 gb": """One op more than fills the card, so no policy that leaves the program's ops whole can run that batch, and the limit of +3 % set
for it cannot be tried. What limits the largest batch is the backward pass of conv1_2: its input, its output's gradient and
its input's gradient are three maps of 12.8 MB per image, which lie side by side with 1.7 GB of weights, gradients and
momentum. vDNN's VGG-16 needs 28 GB at batch 256 already; that batch is in the table above.""",
    "batch factors": """As published, asynchronous fits fewer images than synchronous training, deeper networks gain more, and ResNet-152 at 2240 × 2240
cannot be trained in-core at all. The factors are larger here: Chainer loses memory to its pool and to workspaces, and for
GoogLeNet the published 1.2 and 1.7 mean that single layers decide; which ones is not said. At 224 × 224 the published
overheads are smaller: Chainer's in-core times include loading and host work in which copies hide.""",
    "links": """Out-of-core training that moves everything is bound by the link, so its speed-up tends to the ratio of the links, diluted by
compute. The model's ratio of effective rates (32 to 6) is an assumption, like the nominal 40 to 8.""",
    "checks": """"Holds" is required of this project. "Does not come out" marks a relation of a paper's; the reasons stand with
its figure. The planner's time is of the machine that made this document and is no result.""",
}
