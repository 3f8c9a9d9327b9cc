#pragma once

#include <sched.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice::bench {

// Pins the calling thread to one of the processors that were allowed at the first call, so that a
// pinned program can start another one elsewhere. Returns false if the system refuses.
inline bool pin_to_cpu(std::size_t which) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (which-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  return false;
}

// A sleeping thread. The mutexes of the C library omit atomic instructions while a process has one
// thread. A program that shares a limiter between threads never has only one.
class IdleThread {
 public:
  IdleThread()
      : thread_([this] {
          std::unique_lock lock(mutex_);
          done_.wait(lock, [this] { return stop_; });
        }) {}
  ~IdleThread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    done_.notify_one();
    thread_.join();
  }
  IdleThread(const IdleThread&) = delete;
  IdleThread& operator=(const IdleThread&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice::bench
