"""A network of small layers, bound by its launches. For all iterations but the first 50: milliseconds on the device; for
one of them on the host, microseconds of processor time and of the clock (medians over groups of ten).

usage: torch_mlp.py ITERATIONS
"""
import statistics
import sys
import time

import torch
from torch import nn

UNTIMED, GROUP = 50, 10
model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU()))).cuda()
optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(64, 256).cuda()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
processor, clock = [], []
for i in range(int(sys.argv[1])):
    if i == UNTIMED:
        begin.record()
    if i >= UNTIMED and i % GROUP == 0:
        processor.append(time.process_time())
        clock.append(time.perf_counter())
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
end.record()
torch.cuda.synchronize()
each = [statistics.median((b - a) * 1e6 / GROUP for a, b in zip(times, times[1:])) if times[1:] else 0
        for times in (processor, clock)]
print(begin.elapsed_time(end), *each)
