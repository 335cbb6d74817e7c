"""Which cells there are, and in which table of the document each stands."""
import dataclasses

import published
from cells import Cell

PCIE, NVLINK, TITAN = "v100-pcie3", "v100-nvlink2", "titanx"


@dataclasses.dataclass(frozen=True)
class Figure:
    key: str
    kind: str  # "ablation" or "throughput"
    title: str
    cells: dict  # label → Cell
    policies: tuple
    says: published.Published
    unit: str = "images/s"
    scale: dict | None = None  # label → units per image

    @property
    def device(self):
        return next(iter(self.cells.values())).device


def v100(device, network, batch, *more):
    return Cell(device, "16GiB", network, batch, tuple(map(str, more)))


def clip(device, height, width, frames):
    return v100(device, "resnext101-3d", 1, "--input-size", height, "--input-width", width, "--frames", frames)


ABLATION = ("swap-all-unscheduled", "swap-all", "swap-opt", "pooch", "hybrid")
METHODS = ("superneurons", "pooch", "hybrid")
# The last of each of these figures is beyond the paper's: the trainer's networks need less than the paper's.
SIZES = ((224, 224, 128), (224, 224, 256), (448, 224, 128), (448, 224, 256), (448, 448, 256))
CLIPS = {f"({h}×{w})×{f}": (h, w, f) for h, w, f in SIZES}


def ablation(key, device, says):
    networks = (("resnet50", 256), ("googlenet", 384), ("alexnet", 2432), ("googlenet", 1024), ("alexnet", 4480))
    cells = {f"{n} ({b})": v100(device, n, b) for n, b in networks}
    return Figure(key, "ablation", f"Figure {key}: each optimisation, {device}", cells, ABLATION, says)


def resnet50(key, device, beyond, says):
    cells = {str(b): v100(device, "resnet50", b) for b in (128, 256, 384, 512, 640, beyond)}
    return Figure(key, "throughput", f"Figure {key}: ResNet-50, {device}", cells, METHODS, says)


def alexnet(key, device):
    cells = {str(b): v100(device, "alexnet", b) for b in (2304, 2432, 2560, 2688, 3840, 4480)}
    return Figure(key, "throughput", f"Figure {key}: AlexNet, {device}", cells, METHODS, published.FIGURE_19)


def resnext(key, device):
    return Figure(key, "throughput", f"Figure {key}: ResNeXt-101 (3D), batch 1, {device}",
                  {label: clip(device, *size) for label, size in CLIPS.items()}, METHODS, published.FIGURE_21,
                  "voxels/ms", {label: h * w * f / 1e3 for label, (h, w, f) in CLIPS.items()})


def full_figures():
    return [
        ablation("15", PCIE, published.FIGURE_15), ablation("16", NVLINK, published.FIGURE_16),
        resnet50("17", PCIE, 1024, published.FIGURE_17), resnet50("18", NVLINK, 1152, published.FIGURE_18),
        alexnet("19", PCIE), alexnet("20", NVLINK), resnext("21", PCIE), resnext("22", NVLINK),
    ]


def titan(network, batch, *more):
    return Cell(TITAN, "12GiB", network, batch, more)


VDNN = {f"{n} ({b})": titan(n, b) for n, b in (("alexnet", 128), ("googlenet", 128), ("vgg16", 64), ("vgg16", 128),
                                               ("vgg16", 256))}
VDNN["vgg16 (229), separate ReLUs"] = titan("vgg16", 229, "--separate-relu")
# The program takes the fastest algorithms itself, and tells what else it tried.
TRIED = {label: dataclasses.replace(cell, more=(*cell.more, "--benchmark-algorithms")) for label, cell in VDNN.items()}
DEEP = {f"vgg{layers}": titan(f"vgg{layers}", 32) for layers in (116, 216, 316)}
# The usual share of the model's host, 80 % of 64 GB, does not hold its maps.
DEEP["vgg416"] = Cell(TITAN, "12GiB", "vgg416", 32, host_memory="58GiB")
# The planner's time is taken with these.
LARGE = {"resnext101-3d": clip(PCIE, 448, 224, 256), "resnet152": v100(PCIE, "resnet152", 256)}
# Figure 17's ratio where less memory is left to plans.
LESS_MEMORY = {f"{batch}, {memory}": Cell(PCIE, memory, "resnet50", batch) for batch in (256, 512)
               for memory in ("16GiB", "15GiB", "14GiB", "12GiB")}


@dataclasses.dataclass(frozen=True)
class Grid:
    name: str
    figures: list
    table_3: dict  # device → Cell
    vdnn: dict
    tried: dict  # with --benchmark-algorithms
    deep: dict
    less_memory: dict
    large: dict
    profiles: bool  # batch factors, links, the largest batch of VGG-16: from profiles

    def cells(self):
        groups = [*(figure.cells for figure in self.figures), self.table_3, self.vdnn, self.tried, self.deep,
                  self.less_memory, self.large]
        return list(dict.fromkeys(cell for group in groups for cell in group.values()))


def full():
    return Grid("full", full_figures(), {d: v100(d, "resnet50", 512) for d in (PCIE, NVLINK)}, VDNN, TRIED, DEEP,
                LESS_MEMORY, LARGE, True)


def quick():
    """Figures 17 and 18 at two batches, Table 3, one network of vDNN's."""
    figures = [dataclasses.replace(figure, cells={b: figure.cells[b] for b in ("256", "512")})
               for figure in full_figures() if figure.key in ("17", "18")]
    return Grid("quick", figures, {d: v100(d, "resnet50", 512) for d in (PCIE, NVLINK)},
                {"vgg16 (64)": VDNN["vgg16 (64)"]}, {"vgg16 (64)": TRIED["vgg16 (64)"]}, {}, {}, {}, False)


def tiny():
    """One small network on two links, for the program's own test."""
    cells = {d: Cell(d, "600MiB", "resnet50", 8) for d in (PCIE, NVLINK)}
    figures = [Figure("17", "throughput", f"Figure 17, small: {PCIE}", {"8": cells[PCIE]}, METHODS, published.FIGURE_17)]
    return Grid("tiny", figures, cells, {}, {}, {}, {}, {}, False)


GRIDS = {"full": full, "quick": quick, "tiny": tiny}
