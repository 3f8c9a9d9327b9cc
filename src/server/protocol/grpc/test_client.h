#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/protocol/grpc/framing.h"

namespace sluice::server::grpc {

// The client's side of HTTP/2 without a socket, based on nghttp2. For tests.
class TestClient {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;
  struct Answer {
    std::map<std::string, std::string> fields;  // of the header and the trailers
    std::string data;
    bool ended = false;
    std::uint32_t error = 0;  // of a reset
  };

  // `window`: how many bytes of each reply the client accepts before it asks for more. With 0 it
  // never asks for more.
  explicit TestClient(std::uint32_t window = 65'535) {
    nghttp2_session_callbacks* calls = nullptr;
    nghttp2_session_callbacks_new(&calls);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_client_new(&session_, calls, this);
    nghttp2_session_callbacks_del(calls);
    const nghttp2_settings_entry setting{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &setting, 1);
  }
  ~TestClient() { nghttp2_session_del(session_); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  static Fields fields(std::string path, Fields more = {}) {
    Fields out = {{":method", "POST"},        {":scheme", "http"},
                  {":path", std::move(path)}, {":authority", "localhost"},
                  {"te", "trailers"},         {"content-type", "application/grpc"}};
    for (auto& [name, value] : more) {
      bool replaced = false;
      for (auto& own : out) {
        if (own.first != name) continue;
        own.second = value;
        replaced = true;
      }
      if (!replaced) out.emplace_back(name, value);
    }
    return out;
  }
  // Opens a stream with that header and that body. With `whole` false the stream stays open.
  std::int32_t send(const Fields& fields, std::string body, bool whole = true) {
    std::vector<nghttp2_nv> all;
    for (const auto& [name, value] : fields) {
      all.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    auto made = std::make_unique<Body>(Body{std::move(body), 0, whole});
    nghttp2_data_provider source{};
    source.source.ptr = made.get();
    source.read_callback = read;
    const std::int32_t id =
        nghttp2_submit_request(session_, nullptr, all.data(), all.size(), &source, nullptr);
    bodies_[id] = std::move(made);
    return id;
  }
  // Continues the body of an open stream.
  void send_more(std::int32_t id, std::string_view body, bool whole = false) {
    bodies_[id]->bytes.append(body);
    bodies_[id]->whole = whole;
    nghttp2_session_resume_data(session_, id);
  }
  // Accepts that many more bytes of a reply.
  void accept_more(std::int32_t id, std::int32_t size) {
    nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, id, size);
  }
  std::int32_t call(std::string path, std::string_view message, Fields more = {}) {
    std::string body;
    append_message(body, message);
    return send(fields(std::move(path), std::move(more)), std::move(body));
  }
  void reset(std::int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  }
  void ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

  // Returns the client's output.
  std::string output() {
    std::string out;
    const std::uint8_t* data = nullptr;
    for (auto size = nghttp2_session_mem_send(session_, &data); size > 0;
         size = nghttp2_session_mem_send(session_, &data)) {
      out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    }
    return out;
  }
  // Returns false if the input is not valid HTTP/2.
  bool take(std::string_view input) {
    return nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(input.data()),
                                    input.size()) >= 0;
  }

  std::map<std::int32_t, Answer> answers;
  std::vector<std::uint32_t> goaways;  // their error codes

 private:
  struct Body {
    std::string bytes;
    std::size_t done;
    bool whole;
  };
  static std::uint8_t* bytes(const std::string& text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  }
  static TestClient& of(void* user) { return *static_cast<TestClient*>(user); }
  static ssize_t read(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Body& body = *static_cast<Body*>(source->ptr);
    const std::size_t size = std::min(room, body.bytes.size() - body.done);
    std::memcpy(to, body.bytes.data() + body.done, size);
    body.done += size;
    if (body.done < body.bytes.size()) return static_cast<ssize_t>(size);
    if (body.whole) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return size > 0 || body.whole ? static_cast<ssize_t>(size) : ssize_t{NGHTTP2_ERR_DEFERRED};
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    const auto text = [](const std::uint8_t* at, std::size_t size) {
      return std::string(reinterpret_cast<const char*>(at), size);
    };
    of(user).answers[frame->hd.stream_id].fields[text(name, name_size)] = text(value, value_size);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    of(user).answers[id].data.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    of(user).answers[id].ended = true;
    of(user).answers[id].error = error;
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) of(user).goaways.push_back(frame->goaway.error_code);
    return 0;
  }

  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Body>> bodies_;
};

}  // namespace sluice::server::grpc
