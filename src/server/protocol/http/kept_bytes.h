#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/net/loop_clock.h"

namespace sluice::server::http {

// The bytes that the connections of a loop keep for their clients: requests that are not complete
// or that wait, and responses that the clients have not read. If they exceed a bound, connections
// drop what they keep until the rest is within it, first the one with the largest product of bytes
// and time. A client that is quick therefore keeps its response even if many others are slow.
//
// Thread-safety: one loop's thread. Ownership: borrows the holders. Cost: set() a few instructions;
// beyond the bound, one pass over all holders for each that drops.
class KeptBytes {
 public:
  class Holder {
   public:
    Holder() = default;
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    virtual ~Holder() = default;
    // Releases the bytes, or ends soon what needs them. Must not call set().
    virtual void drop_kept() noexcept = 0;

   private:
    friend class KeptBytes;
    bool is_listed_ = false;
    std::size_t bytes_ = 0;  // its own
    std::shared_ptr<const std::string> text_;
    net::SteadyTime since_;
    std::size_t place_ = 0;
  };

  explicit KeptBytes(std::size_t most) : most_(most) {}
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  // Now the holder has these bytes, and the text, which counts once for all holders of it. Call it
  // with none before the holder is destroyed. May call drop_kept() of any holder. Errors:
  // std::bad_alloc, unless it has none.
  void set(Holder& holder, std::size_t bytes, const std::shared_ptr<const std::string>& text,
           net::SteadyTime now);
  std::size_t total() const noexcept { return total_; }

 private:
  void release_text(Holder& holder) noexcept;
  void forget(Holder& holder) noexcept;
  void drop(net::SteadyTime now);

  const std::size_t most_;
  std::size_t total_ = 0;
  std::vector<Holder*> holders_;
  std::map<const std::string*, std::size_t> texts_;  // and the number of their holders
};

}  // namespace sluice::server::http
