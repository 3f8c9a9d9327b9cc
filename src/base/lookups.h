#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::base {

// Looks up the addresses of names. A lookup takes as long as the name servers do, up to half a
// minute, and cannot be ended. So each has a thread of its own, for which nobody waits, as the
// destructor of an io_context does for the thread of Asio's resolvers.
//
// Thread-safety: the loop's thread only. Ownership: borrows the loop.
class Lookups {
 public:
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  using Done = std::function<void(const boost::system::error_code& why, const Endpoints& found)>;

  explicit Lookups(boost::asio::io_context& loop);
  // Releases the functions that were not called.
  ~Lookups();
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  // Calls `done` in the loop, which something else must keep running until then. Waits for a lookup
  // of the same name that is under way instead of beginning another.
  void find(const std::string& host, const std::string& port, Done done);

 private:
  struct Shared;

  const std::shared_ptr<Shared> shared_;
};

}  // namespace sluice::base
