"""A perceptron of equal layers in CuPy, trained on random vectors.

usage: mlp.py [--layers N] [--width N] [--batch N] [--iterations N]
"""

import argparse

import cupy


def options():
    parser = argparse.ArgumentParser(description="Trains a perceptron of equal layers on random vectors.")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=10)
    return parser.parse_args()


def step(weights, x, target, rate):
    """One step of gradient descent; the loss before it."""
    maps = [x]
    for w in weights:
        maps.append(cupy.maximum(maps[-1] @ w, 0))
    difference = maps[-1] - target
    gradient = difference * (2 / difference.size)
    for i in reversed(range(len(weights))):
        gradient = gradient * (maps[i + 1] > 0)
        below = gradient @ weights[i].T
        weights[i] -= rate * (maps[i].T @ gradient)
        gradient = below
    return float((difference * difference).mean())


def main():
    o = options()
    random = cupy.random.RandomState(0)
    scale = (2 / o.width) ** 0.5
    weights = [random.standard_normal((o.width, o.width), dtype=cupy.float32) * scale for _ in range(o.layers)]
    x = random.standard_normal((o.batch, o.width), dtype=cupy.float32)
    target = cupy.maximum(random.standard_normal((o.batch, o.width), dtype=cupy.float32), 0)
    for i in range(o.iterations):
        print(f"iteration {i}: loss {step(weights, x, target, 0.01):.9g}", flush=True)


if __name__ == "__main__":
    main()
