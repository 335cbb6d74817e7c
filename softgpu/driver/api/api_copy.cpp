// Copies of every direction. Where each side lies decides which engine moves it and whether the host waits:
// from or to pageable memory the driver copies through buffers of its own.
#include <algorithm>
#include <cstring>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

enum class Place { device, host_handle, pinned, pageable };
enum class Sides { to_device, to_host, in_device, any };

constexpr std::uint64_t staged_limit = 64 << 10;  // pageable memory up to this is taken at the call

std::uint64_t number(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

struct Rows {
  std::uint64_t to, from, bytes;       // of one row
  std::uint64_t to_pitch, from_pitch;  // between rows
  std::uint64_t count;
};

class Copy {
 public:
  Copy(Call& call, const Rows& rows) : call_(call), m_(*call.m), rows_(rows) {
    if (rows_.to_pitch == rows_.bytes && rows_.from_pitch == rows_.bytes) {
      rows_.bytes *= rows_.count;
      rows_.count = 1;
    }
    to_ = place(rows_.to);
    from_ = place(rows_.from);
    total_ = rows_.bytes * rows_.count;
  }

  CUresult submit(const StreamPtr& stream, Sides sides, bool async) {
    if (total_ == 0) return CUDA_SUCCESS;
    if (!sides_fit(sides) || !valid()) return CUDA_ERROR_INVALID_VALUE;
    Work work = call_.work();
    for (std::uint64_t row = 0; row < rows_.count; ++row) {
      work.copies.push_back(
          {rows_.to + row * rows_.to_pitch, rows_.from + row * rows_.from_pitch, rows_.bytes});
    }
    choose_engine(work);
    const bool staged = stage(work);
    if (!staged && m_.compute()) work.run = mover(work.copies);
    if (activity_feed().wants(activity_copies) && !stream->capture) note(async, work);
    const CUresult submitted = m_.scheduler.submit(call_.lock, stream, std::move(work));
    if (submitted != CUDA_SUCCESS || stream->capture || !host_waits(async, staged)) return submitted;
    m_.scheduler.wait(call_.lock, stream);
    return call_.waited();
  }

 private:
  Place place(std::uint64_t address) const {
    const Object* const object = m_.addresses.find(address);
    if (object != nullptr && object->on_host) return Place::host_handle;
    if (m_.addresses.device(address)) return Place::device;
    return m_.host.find(address) != nullptr ? Place::pinned : Place::pageable;
  }

  static bool has_device_address(Place place) {
    return place == Place::device || place == Place::host_handle;
  }

  bool sides_fit(Sides sides) const {
    const bool to_device = has_device_address(to_), from_device = has_device_address(from_);
    switch (sides) {
      case Sides::to_device:
        return to_device && rows_.from != 0;
      case Sides::to_host:
        return from_device && rows_.to != 0;
      case Sides::in_device:
        return to_ != Place::pageable && from_ != Place::pageable;
      case Sides::any:
        return rows_.to != 0 && rows_.from != 0;
    }
    return false;
  }

  // The driver looks addresses up at the call, and refuses what is not memory.
  bool valid() const {
    const auto extent = [&](std::uint64_t pitch) { return (rows_.count - 1) * pitch + rows_.bytes; };
    const auto check = [&](Place where, std::uint64_t address, std::uint64_t pitch, bool write) {
      if (!has_device_address(where) || m_.checker.valid_device(address, extent(pitch))) return true;
      m_.checker.refuse(address, extent(pitch), write, call_.host_access());
      return false;
    };
    return check(from_, rows_.from, rows_.from_pitch, false) && check(to_, rows_.to, rows_.to_pitch, true);
  }

  void choose_engine(Work& work) {
    Statistics& s = m_.statistics;
    if (to_ == Place::device && from_ == Place::device) {
      work.engine = Engine::compute;
      work.duration = m_.cost.copy_device(total_);
      ++s.copies_device;
      s.bytes_device += total_;
    } else if (to_ == Place::device) {
      work.engine = Engine::to_device;
      work.duration = m_.cost.copy_to_device(total_);
      work.link_bytes = total_;
      ++s.copies_in;
      s.bytes_in += total_;
    } else if (from_ == Place::device) {
      work.engine = Engine::to_host;
      work.duration = m_.cost.copy_to_host(total_);
      work.link_bytes = total_;
      ++s.copies_out;
      s.bytes_out += total_;
    } else {
      work.duration = m_.cost.copy_host(total_);
    }
  }

  void note(bool async, Work& work) const {
    const auto side = [](Place place) {
      return place == Place::device   ? CopySide::device
             : place == Place::pinned ? CopySide::pinned
                                      : CopySide::pageable;
    };
    WorkActivity activity = call_.activity(activity_copies);
    activity.async = async;
    activity.bytes = total_;
    activity.from = side(from_);
    activity.to = side(to_);
    activity_feed().follow(work, activity);
  }

  // A small pageable source may change after the call.
  bool stage(Work& work) const {
    if (from_ != Place::pageable || !has_device_address(to_) || total_ > staged_limit) return false;
    if (m_.provenance) {
      work.content.staged = m_.provenance->of_bytes(work.copies);
      return true;
    }
    auto buffer = std::make_shared<std::vector<std::byte>>(total_);
    std::byte* at = buffer->data();
    for (const CopyPart& part : work.copies) {
      std::memcpy(at, pointer(part.from), part.bytes);
      at += part.bytes;
    }
    work.run = [buffer, parts = work.copies] {
      const std::byte* next = buffer->data();
      for (const CopyPart& part : parts) {
        std::memcpy(pointer(part.to), next, part.bytes);
        next += part.bytes;
      }
    };
    return true;
  }

  static std::function<void()> mover(const std::vector<CopyPart>& parts) {
    return [parts] {
      for (const CopyPart& part : parts) std::memmove(pointer(part.to), pointer(part.from), part.bytes);
    };
  }

  bool host_waits(bool async, bool staged) const {
    const bool within_device = to_ == Place::device && from_ == Place::device;
    if (!async) return !within_device;
    if (to_ == Place::pageable) return true;
    return from_ == Place::pageable && !staged;
  }

  Call& call_;
  Machine& m_;
  Rows rows_;
  Place to_, from_;
  std::uint64_t total_;
};

CUresult copy(const char* name, bool per_thread, Sides sides, bool async, std::uint64_t to,
              std::uint64_t from, std::size_t bytes, CUstream in) {
  SOFTGPU_CALL(name, needs_context, &Model::copy_submit);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return Copy(call, Rows{to, from, bytes, bytes, bytes, 1}).submit(stream, sides, async);
}

// One side of a 2-D copy; false where it is an array.
bool side(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x, std::size_t y,
          std::size_t pitch, std::uint64_t& out) {
  if (type == CU_MEMORYTYPE_ARRAY) return false;
  out = (type == CU_MEMORYTYPE_HOST ? number(host) : device) + y * pitch + x;
  return true;
}

CUresult copy_2d(const char* name, bool per_thread, bool async, const CUDA_MEMCPY2D* c, CUstream in) {
  SOFTGPU_CALL(name, needs_context, &Model::copy_submit);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (c->WidthInBytes == 0 || c->Height == 0) return CUDA_SUCCESS;
  Rows rows{0, 0, c->WidthInBytes, c->dstPitch, c->srcPitch, c->Height};
  if (rows.to_pitch == 0) rows.to_pitch = c->dstXInBytes + c->WidthInBytes;
  if (rows.from_pitch == 0) rows.from_pitch = c->srcXInBytes + c->WidthInBytes;
  if (c->dstXInBytes + c->WidthInBytes > rows.to_pitch ||
      c->srcXInBytes + c->WidthInBytes > rows.from_pitch) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, rows.to_pitch, rows.to) ||
      !side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, rows.from_pitch,
            rows.from)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Copy(call, rows).submit(stream, Sides::any, async);
}

}  // namespace

SOFTGPU_EXPORT(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, false, Sides::any, false, to, from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpy_ptds)(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, true, Sides::any, false, to, from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, false, Sides::any, true, to, from, bytes, s);
}
SOFTGPU_EXPORT(cuMemcpyAsync_ptsz)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, true, Sides::any, true, to, from, bytes, s);
}

SOFTGPU_EXPORT(cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, size_t bytes) {
  return copy(__func__, false, Sides::to_device, false, to, number(from), bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyHtoD_v2_ptds)(CUdeviceptr to, const void* from, size_t bytes) {
  return copy(__func__, true, Sides::to_device, false, to, number(from), bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  return copy(__func__, false, Sides::to_device, true, to, number(from), bytes, s);
}
SOFTGPU_EXPORT(cuMemcpyHtoDAsync_v2_ptsz)(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  return copy(__func__, true, Sides::to_device, true, to, number(from), bytes, s);
}

SOFTGPU_EXPORT(cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, false, Sides::to_host, false, number(to), from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyDtoH_v2_ptds)(void* to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, true, Sides::to_host, false, number(to), from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, false, Sides::to_host, true, number(to), from, bytes, s);
}
SOFTGPU_EXPORT(cuMemcpyDtoHAsync_v2_ptsz)(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, true, Sides::to_host, true, number(to), from, bytes, s);
}

SOFTGPU_EXPORT(cuMemcpyDtoD_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, false, Sides::in_device, false, to, from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyDtoD_v2_ptds)(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(__func__, true, Sides::in_device, false, to, from, bytes, nullptr);
}
SOFTGPU_EXPORT(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, false, Sides::in_device, true, to, from, bytes, s);
}
SOFTGPU_EXPORT(cuMemcpyDtoDAsync_v2_ptsz)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(__func__, true, Sides::in_device, true, to, from, bytes, s);
}

SOFTGPU_EXPORT(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* c) {
  return copy_2d(__func__, false, false, c, nullptr);
}
SOFTGPU_EXPORT(cuMemcpy2D_v2_ptds)(const CUDA_MEMCPY2D* c) {
  return copy_2d(__func__, true, false, c, nullptr);
}
SOFTGPU_EXPORT(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D* c) {
  return copy_2d(__func__, false, false, c, nullptr);
}
SOFTGPU_EXPORT(cuMemcpy2DUnaligned_v2_ptds)(const CUDA_MEMCPY2D* c) {
  return copy_2d(__func__, true, false, c, nullptr);
}
SOFTGPU_EXPORT(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* c, CUstream s) {
  return copy_2d(__func__, false, true, c, s);
}
SOFTGPU_EXPORT(cuMemcpy2DAsync_v2_ptsz)(const CUDA_MEMCPY2D* c, CUstream s) {
  return copy_2d(__func__, true, true, c, s);
}
