#include "softgpu/cudnn/elements/two_threads.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace softgpu::cudnn {
namespace {

// One helper for the process; who finds it busy works alone. Detached and never destroyed: it may be waiting
// when the process ends.
class Helper {
 public:
  Helper() : owner_(getpid()) {
    std::thread([this] { serve(); }).detach();
  }

  bool belongs_here() const { return owner_ == getpid(); }  // a forked child has no such thread

  // Runs `here` in this thread while `there` runs in the helper; false where the helper is busy.
  bool run(const std::function<void()>& there, const std::function<void()>& here) {
    std::unique_lock user(user_, std::try_to_lock);
    if (!user) return false;
    {
      std::lock_guard lock(mutex_);
      task_ = &there;
    }
    changed_.notify_all();
    here();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return task_ == nullptr; });
    return true;
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return task_ != nullptr; });
      const std::function<void()>* task = task_;
      lock.unlock();
      (*task)();
      lock.lock();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  const pid_t owner_;
  std::mutex user_;  // held by the one who uses the helper
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;  // guarded by mutex_
};

}  // namespace

void in_two(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& part) {
  static Helper* const helper = new Helper;
  const std::int64_t half = count / 2;
  if (half > 0 && helper->belongs_here() && helper->run([&] { part(half, count); }, [&] { part(0, half); })) {
    return;
  }
  part(0, count);
}

}  // namespace softgpu::cudnn
