#include "softgpu/cupti/buffers.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softgpu::cupti {

void Buffers::use(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  const Lock lock(mutex_);
  request_ = request;
  complete_ = complete;
}

bool Buffers::ready() const {
  const Lock lock(mutex_);
  return complete_ != nullptr;
}

Buffers::Buffer Buffers::request(Lock& lock) const {
  Buffer buffer;
  if (request_ == nullptr) return buffer;
  const auto call = request_;
  lock.unlock();
  call(&buffer.data, &buffer.size, &buffer.max_records);
  if (buffer.data != nullptr && !zeroed) std::memset(buffer.data, 0, buffer.size);
  lock.lock();
  return buffer;
}

void Buffers::put(const void* record, std::size_t bytes, std::int64_t end, std::int64_t now,
                  std::uint32_t thread) {
  Lock lock(mutex_);
  now_ = std::max(now_, now);
  const std::uint32_t key = per_thread ? thread : 0;
  auto found = current_.find(key);
  if (found == current_.end() || !found->second.room(bytes)) {
    if (found != current_.end()) full_.push_back(std::move(found->second));
    if (found != current_.end()) current_.erase(found);
    Buffer fresh = request(lock);
    if (!fresh.room(bytes)) {
      ++dropped_;
      if (fresh.data != nullptr) full_.push_back(std::move(fresh));  // too small: the client's again
      changed_.notify_one();
      return;
    }
    found = current_.insert_or_assign(key, std::move(fresh)).first;
  }
  Buffer& buffer = found->second;
  std::memcpy(buffer.data + buffer.used, record, bytes);
  if (end > now_) buffer.late.push_back({buffer.used, end});
  buffer.used += bytes;
  ++buffer.records;
  buffer.end = std::max(buffer.end, end);
  if (any_ripe()) changed_.notify_one();
}

bool Buffers::any_ripe() const {
  return std::any_of(full_.begin(), full_.end(), [this](const Buffer& buffer) { return buffer.end <= now_; });
}

// The full buffers that are complete.
std::vector<Buffers::Buffer> Buffers::take_full() {
  const auto complete = std::stable_partition(full_.begin(), full_.end(),
                                              [this](const Buffer& buffer) { return buffer.end > now_; });
  std::vector<Buffer> taken(std::make_move_iterator(complete), std::make_move_iterator(full_.end()));
  full_.erase(complete, full_.end());
  return taken;
}

void Buffers::hand_back(const std::vector<Buffer>& buffers) {
  CUpti_BuffersCallbackCompleteFunc call = nullptr;
  {
    const Lock lock(mutex_);
    call = complete_;
  }
  if (call == nullptr) return;
  for (const Buffer& buffer : buffers) call(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

void Buffers::flush(std::int64_t now, bool forced) {
  const Lock delivering(delivery_);
  std::vector<Buffer> ripe;
  {
    const Lock lock(mutex_);
    now_ = std::max(now_, now);
    std::erase_if(current_, [&](auto& entry) {
      const bool goes = forced || entry.second.end <= now_;
      if (goes) full_.push_back(std::move(entry.second));
      return goes;
    });
    if (forced) {
      for (Buffer& buffer : full_) {
        for (const Late& late : buffer.late) {
          if (late.end > now_)
            reinterpret_cast<CUpti_Activity*>(buffer.data + late.offset)->kind = CUPTI_ACTIVITY_KIND_INVALID;
        }
        buffer.end = 0;
      }
    }
    ripe = take_full();
  }
  hand_back(ripe);
}

std::size_t Buffers::take_dropped() {
  const Lock lock(mutex_);
  return std::exchange(dropped_, 0);
}

void Buffers::start() {
  const Lock lock(mutex_);
  if (thread_.joinable()) return;
  stopping_ = false;
  // The program's signals are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Buffers::stop() {
  std::thread ending;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    ending = std::move(thread_);
    changed_.notify_all();
  }
  if (ending.joinable()) ending.join();
  const Lock lock(mutex_);
  current_.clear();
  full_.clear();
  request_ = nullptr;
  complete_ = nullptr;
  dropped_ = 0;
}

void Buffers::work() {
  while (true) {
    {
      Lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || any_ripe(); });
      if (stopping_) return;
    }
    const Lock delivering(delivery_);
    std::vector<Buffer> ripe;
    {
      const Lock lock(mutex_);
      ripe = take_full();
    }
    hand_back(ripe);
  }
}

}  // namespace softgpu::cupti
