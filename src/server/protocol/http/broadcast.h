#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::server::http {

// A response whose body goes on, for all clients that receive it: the handler sets
// Response::broadcast, and the client then gets everything that is sent, until the end. A client
// that has not taken the previous bytes yet misses the next ones, so send() should send what is
// complete in itself.
//
// Thread-safety: one loop's thread. Ownership: borrows the receivers; outlives them. Cost: as many
// writes as there are receivers.
class Broadcast {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // May call remove() for this receiver.
    virtual void receive(std::string_view bytes) = 0;
    // Nothing follows; the broadcast has forgotten the receiver.
    virtual void end() = 0;
  };

  explicit Broadcast(std::size_t most) : most_(most) {}
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  // Whether there may be one more receiver. Handlers refuse a request if not.
  bool has_room() const noexcept { return receivers_.size() < most_; }
  std::size_t size() const noexcept { return receivers_.size(); }
  std::size_t most() const noexcept { return most_; }
  bool empty() const noexcept { return receivers_.empty(); }
  bool ended() const noexcept { return ended_; }

  void add(Receiver& one) { receivers_.push_back(&one); }
  void remove(const Receiver& one) noexcept { std::erase(receivers_, &one); }
  // From the last to the first, so that a receiver may remove itself.
  void send(std::string_view bytes) {
    for (std::size_t i = receivers_.size(); i-- > 0;) receivers_[i]->receive(bytes);
  }
  // Ends every response, now and from now on.
  void end() {
    ended_ = true;
    end_current();
  }
  // Ends the responses that go on now.
  void end_current() {
    while (!receivers_.empty()) {
      Receiver& last = *receivers_.back();
      receivers_.pop_back();
      last.end();
    }
  }

 private:
  const std::size_t most_;
  std::vector<Receiver*> receivers_;
  bool ended_ = false;
};

}  // namespace sluice::server::http
