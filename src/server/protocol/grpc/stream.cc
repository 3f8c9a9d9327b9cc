#include "server/protocol/grpc/stream.h"

#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {
namespace {

// A buffer that is larger than this is released. If there are more than kMostWarm unused streams,
// all buffers of further ones are released.
constexpr std::size_t kMostKept = std::size_t{4} << 10;
constexpr std::size_t kMostWarm = 2048;

void release(std::string& text, std::size_t most) {
  text.clear();
  if (text.capacity() > most) text = std::string();
}

}  // namespace

bool Stream::finish(Worker& worker) {
  in_work = false;
  if (protocol != nullptr) {
    protocol->answered(*this, worker.reply, *worker.handler);
  } else {
    home->give_back(*this);
  }
  return false;
}

void Stream::dropped() {
  in_work = false;
  if (protocol == nullptr) home->give_back(*this);
}

void Stream::clear(std::size_t most_kept) {
  static_cast<StreamState&>(*this) = {};
  for (std::string* buffer : {&in, &inflated, &out, &text, &peer, &authorization, &traceparent})
    release(*buffer, most_kept);
}

Stream& Streams::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Stream>());
    free_.reserve(all_.size());
    free_.push_back(all_.back().get());
    all_.back()->home = this;
  }
  Stream& stream = *free_.back();
  free_.pop_back();
  return stream;
}

void Streams::give_back(Stream& stream) {
  stream.clear(free_.size() < kMostWarm ? kMostKept : 0);
  free_.push_back(&stream);
}

}  // namespace sluice::server::grpc
