#include "bench/redis_load.h"

#include <hiredis/hiredis.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace sluice::bench {
namespace {

[[noreturn]] void fail(const char* what, const char* more) {
  std::fprintf(stderr, "redis_bench: %s: %s\n", what, more);
  std::exit(1);
}

redisContext* connect(const std::string& socket) {
  redisContext* made = redisConnectUnix(socket.c_str());
  if (made == nullptr || made->err != 0) fail(socket.c_str(), made ? made->errstr : "no memory");
  return made;
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) fail("send", "the server has ended the connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

RespCommand& RespCommand::add(std::string_view element) {
  ++elements_;
  body_.append("$").append(std::to_string(element.size())).append("\r\n");
  body_.append(element).append("\r\n");
  return *this;
}

std::string RespCommand::text() const { return "*" + std::to_string(elements_) + "\r\n" + body_; }

RedisLink::RedisLink(const std::string& socket) : context_(connect(socket)) {}
RedisLink::~RedisLink() { redisFree(context_); }

std::string RedisLink::ask(const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  auto* reply = static_cast<redisReply*>(
      redisCommandArgv(context_, static_cast<int>(words.size()), texts.data(), sizes.data()));
  if (reply == nullptr) fail(words[0].c_str(), context_->errstr);
  if (reply->type == REDIS_REPLY_ERROR) fail(words[0].c_str(), reply->str);
  std::string text = reply->type == REDIS_REPLY_INTEGER ? std::to_string(reply->integer)
                     : reply->str != nullptr            ? std::string(reply->str, reply->len)
                                                        : std::string();
  freeReplyObject(reply);
  return text;
}

RedisLoad::RedisLoad(const std::string& socket, Writer write, Reader read,
                     std::size_t commands_per_operation, std::size_t connections)
    : write_(std::move(write)),
      read_(std::move(read)),
      commands_per_operation_(commands_per_operation),
      connections_(connections),
      poll_(epoll_create1(EPOLL_CLOEXEC)) {
  for (Connection& connection : connections_) {
    connection.context = connect(socket);
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, connection.context->fd, &event) != 0) fail("epoll", "add");
  }
}

RedisLoad::~RedisLoad() {
  for (Connection& connection : connections_) redisFree(connection.context);
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
  send_all(connection.context->fd, buffer_);
}

void RedisLoad::take_replies(Connection& connection) {
  if (redisBufferRead(connection.context) != REDIS_OK) fail("read", connection.context->errstr);
  while (connection.awaited != 0) {
    void* at = nullptr;
    if (redisGetReplyFromReader(connection.context, &at) != REDIS_OK) {
      fail("reply", connection.context->errstr);
    }
    if (at == nullptr) return;
    auto* reply = static_cast<redisReply*>(at);
    if (reply->type == REDIS_REPLY_ERROR) fail("reply", reply->str);
    if (!read_(*reply)) fail("reply", "not what this script answers");
    freeReplyObject(reply);
    --connection.awaited;
  }
}

}  // namespace sluice::bench
