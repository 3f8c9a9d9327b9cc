#include "server/net/transport.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <cerrno>

namespace sluice::server::net {

using boost::system::error_code;

std::size_t Transport::read(char* to, std::size_t room, error_code& why) {
  if (tls_) return tls_->read(to, room, why);
  ssize_t got = 0;
  do {
    got = ::recv(descriptor_, to, room, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  why = {};
  if (got == 0) why = boost::asio::error::eof;
  if (got < 0) why.assign(errno, boost::system::system_category());
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::size_t Transport::write(const char* bytes, std::size_t size, error_code& why) {
  if (tls_) return tls_->write(bytes, size, why);
  ssize_t sent = 0;
  do {
    sent = ::send(descriptor_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  why = {};
  if (sent < 0) why.assign(errno, boost::system::system_category());
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

void Transport::finish() {
  if (tls_) tls_->finish();
  ::shutdown(descriptor_, SHUT_WR);
}

}  // namespace sluice::server::net
