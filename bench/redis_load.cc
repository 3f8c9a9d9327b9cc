#include "bench/redis_load.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "bench/redis_server.h"

namespace sluice::bench {
namespace {

constexpr std::size_t kReadAtLeast = 4 << 10;

[[noreturn]] void fail(const std::string& what, std::string_view more) {
  std::fprintf(stderr, "redis_bench: %s: %.*s\n", what.c_str(), static_cast<int>(more.size()),
               more.data());
  std::exit(1);
}

int connect(const std::string& socket) {
  const int made = connected_to(socket);
  if (made < 0) fail(socket, "cannot connect");
  return made;
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) fail("send", "the server has ended the connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void receive(int socket, redis::ReplyReader& replies) {
  const std::span<char> room = replies.prepare(kReadAtLeast);
  const ssize_t got = ::recv(socket, room.data(), room.size(), 0);
  if (got <= 0) fail("read", "the server has ended the connection");
  replies.commit(static_cast<std::size_t>(got));
}

// Returns the next reply, or null if more bytes are needed.
const redis::Reply* next_of(redis::ReplyReader& replies) {
  using Progress = redis::ReplyReader::Progress;
  const Progress progress = replies.next();
  if (progress == Progress::kBad) fail("reply", replies.why());
  if (progress == Progress::kMore) return nullptr;
  if (replies.reply().type == redis::Reply::kError) fail("reply", replies.reply().text);
  return &replies.reply();
}

}  // namespace

RespCommand& RespCommand::add(std::string_view element) {
  ++elements_;
  body_.append("$").append(std::to_string(element.size())).append("\r\n");
  body_.append(element).append("\r\n");
  return *this;
}

std::string RespCommand::text() const { return "*" + std::to_string(elements_) + "\r\n" + body_; }

RedisLink::RedisLink(const std::string& socket) : socket_(connect(socket)) {}
RedisLink::~RedisLink() { close(socket_); }

std::string RedisLink::ask(const std::vector<std::string>& words) {
  RespCommand command;
  for (const std::string& word : words) command.add(word);
  send_all(socket_, command.text());
  redis::ReplyReader replies;
  const redis::Reply* reply = nullptr;
  while ((reply = next_of(replies)) == nullptr) receive(socket_, replies);
  return reply->type == redis::Reply::kInteger ? std::to_string(reply->integer)
                                               : std::string(reply->text);
}

RedisLoad::RedisLoad(const std::string& socket, Writer write, Reader read,
                     std::size_t commands_per_operation, std::size_t connections)
    : write_(std::move(write)),
      read_(std::move(read)),
      commands_per_operation_(commands_per_operation),
      connections_(connections),
      poll_(epoll_create1(EPOLL_CLOEXEC)) {
  for (Connection& connection : connections_) {
    connection.socket = connect(socket);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, connection.socket, &event) != 0) fail("epoll", "add");
  }
}

RedisLoad::~RedisLoad() {
  for (Connection& connection : connections_) close(connection.socket);
  close(poll_);
}

void RedisLoad::operator()(std::size_t first, std::size_t count) {
  next_ = first;
  end_ = first + count;
  for (Connection& connection : connections_) send(connection);
  const auto is_waiting = [](const Connection& one) { return one.awaited != 0; };
  while (std::any_of(connections_.begin(), connections_.end(), is_waiting)) {
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 5000);
    if (ready <= 0) fail("epoll", "no reply for five seconds");
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      take_replies(connection);
      if (connection.awaited == 0) send(connection);
    }
  }
}

void RedisLoad::send(Connection& connection) {
  const std::size_t count = std::min(kDepth, end_ - next_);
  if (count == 0) return;
  buffer_.clear();
  for (std::size_t i = 0; i < count; ++i) write_(next_++, buffer_);
  connection.awaited = count * commands_per_operation_;
  send_all(connection.socket, buffer_);
}

void RedisLoad::take_replies(Connection& connection) {
  receive(connection.socket, connection.replies);
  while (connection.awaited != 0) {
    const redis::Reply* const reply = next_of(connection.replies);
    if (reply == nullptr) return;
    if (!read_(*reply)) fail("reply", "not what this script answers");
    --connection.awaited;
  }
}

}  // namespace sluice::bench
