"""Calls CUDA from Python, the same steps in each iteration: callsites_program.py [CDLL|PyDLL]

With PyDLL the interpreter keeps its lock during a call, with CDLL it gives it away.
"""
import ctypes
import sys

BYTES = 4 << 20
DEVICE_TO_DEVICE = 3
cuda = getattr(ctypes, sys.argv[1] if len(sys.argv) > 1 else "CDLL")("libcudart.so.13")


def check(status):
    if status != 0:
        sys.exit(f"CUDA says {status}")


def allocate():
    address = ctypes.c_void_p()
    check(cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(BYTES)))
    return address


def clear(buffer):
    check(cuda.cudaMemset(buffer, 0, ctypes.c_size_t(BYTES)))  # HERE: clear


def copy(to, start):
    check(cuda.cudaMemcpy(to, start, ctypes.c_size_t(BYTES), DEVICE_TO_DEVICE))  # HERE: copy


def step(parameters):
    x, y = allocate(), allocate()
    clear(x)  # HERE: step
    copy(y, x)
    clear(parameters)
    for buffer in (x, y):
        check(cuda.cudaFree(buffer))


def main():
    parameters = allocate()
    for _ in range(10):
        step(parameters)  # HERE: main
    check(cuda.cudaDeviceSynchronize())
    with open("/proc/self/maps", encoding="utf-8") as maps:
        print("libunwind:", "libunwind.so.8" in maps.read())


main()  # HERE: <module>
