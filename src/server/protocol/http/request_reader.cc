#include "server/protocol/http/request_reader.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <new>
#include <optional>

namespace sluice::server::http {
namespace {

namespace beast_http = boost::beast::http;
using beast_http::error;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view view(string_view text) noexcept { return {text.data(), text.size()}; }

// A part of the message, as an offset, because the bytes may move.
struct Piece {
  std::uint32_t at = 0;
  std::uint32_t size = 0;
};
struct FieldPieces {
  Piece name;
  Piece value;
};

BadRequest bad_request(const error_code& why) {
  switch (static_cast<error>(why.value())) {
    case error::header_limit: return {431, "the header of the request is too long"};
    case error::body_limit: return {413, "the body of the request is too long"};
    case error::bad_version: return {505, "expected HTTP/1.1 or HTTP/1.0"};
    case error::bad_method: return {400, "the method is not a token"};
    case error::bad_target: return {400, "the target of the request contains an invalid byte"};
    case error::bad_field: return {400, "the name of a field is not a token"};
    case error::bad_value: return {400, "the value of a field is not valid"};
    case error::bad_content_length:
      return {400, "Content-Length is not a number, or is combined with Transfer-Encoding"};
    case error::multiple_content_length: return {400, "several Content-Length fields differ"};
    case error::bad_transfer_encoding:
      return {400, "Transfer-Encoding is repeated, or is combined with Content-Length"};
    case error::bad_chunk:
    case error::bad_chunk_extension: return {400, "a chunk of the body is not valid"};
    default: return {400, "this is not HTTP/1.1"};
  }
}

constexpr std::size_t kLastChunkBytes = 5;
// The most bytes of chunk headers and trailers. More count as an attack.
constexpr std::size_t kMostChunkBytes = std::size_t{64} << 10;

}  // namespace

// The parts of a message, as offsets into its bytes.
struct RequestReader::Parts {
  std::string_view message;
  std::vector<FieldPieces> fields;
  std::string chunks;  // the body if it came in chunks
  std::size_t at = 0;  // the bytes that are read
  Piece method, target, body;
  int version = 11;
  bool expects = false;
  BadRequest bad;

  void clear() {
    fields.clear();
    chunks.clear();
    at = 0;
    method = target = body = {};
    expects = false;
    bad = {};
  }
  Piece place(std::string_view text) const noexcept {
    return {static_cast<std::uint32_t>(text.data() - message.data()),
            static_cast<std::uint32_t>(text.size())};
  }
  std::string_view text(const Piece& piece) const noexcept {
    return message.substr(piece.at, piece.size);
  }
  bool holds(std::string_view text) const noexcept {
    return text.data() >= message.data() && text.data() <= message.data() + message.size();
  }
};

// Beast's parser of one message. It records in `parts` what it finds.
class RequestReader::Parser final : public beast_http::basic_parser<true> {
 public:
  Parser(const ReaderBounds& bounds, Parts& parts)
      : parts_(parts), header_bytes_(bounds.header_bytes) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(bounds.header_bytes));
    body_limit(bounds.body_bytes);
  }

 private:
  void refuse(int status, std::string_view detail, error_code& why) {
    parts_.bad = {status, detail};
    why = make_error_code(error::bad_value);
  }

  void on_request_impl(beast_http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    parts_.method = parts_.place(view(method));
    parts_.target = parts_.place(view(target));
    parts_.version = version;
  }
  void on_field_impl(beast_http::field field, string_view name, string_view value,
                     error_code& why) override {
    if (is_header_done()) return;  // a trailer field
    if (is_folded(view(name), view(value))) {
      return refuse(400, "a field is folded over several lines", why);
    }
    const Piece place = parts_.place(view(value));
    // Beast bounds the first line and the fields separately.
    if (place.at + place.size > header_bytes_) {
      why = make_error_code(error::header_limit);
      return;
    }
    check_field(field, view(value), why);
    parts_.fields.push_back({parts_.place(view(name)), place});
  }
  // Beast joins the lines of a value elsewhere, but only if there is text on the first one.
  bool is_folded(std::string_view name, std::string_view value) const noexcept {
    if (!parts_.holds(value)) return true;
    const char* const name_end = name.data() + name.size();
    return std::find(name_end, value.data(), '\n') != value.data();
  }
  void check_field(beast_http::field field, std::string_view value, error_code& why) {
    if (field == beast_http::field::host) {
      if (has_host_) return refuse(400, "the field Host is repeated", why);
      has_host_ = true;
    } else if (field == beast_http::field::transfer_encoding) {
      if (parts_.version < 11) return refuse(400, "Transfer-Encoding in HTTP/1.0", why);
      if (!equal_names(value, "chunked"))
        return refuse(501, "the only Transfer-Encoding here is chunked", why);
    } else if (field == beast_http::field::expect) {
      if (!equal_names(value, "100-continue"))
        return refuse(417, "the only Expect here is 100-continue", why);
      parts_.expects = parts_.version == 11;
    }
  }
  void on_header_impl(error_code& why) override {
    if (parts_.version == 11 && !has_host_) refuse(400, "the field Host is missing", why);
  }
  std::size_t on_body_impl(string_view body, error_code&) override {
    if (parts_.body.size == 0) parts_.body = parts_.place(view(body.substr(0, 0)));
    parts_.body.size += static_cast<std::uint32_t>(body.size());
    return body.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    parts_.chunks.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  Parts& parts_;
  const std::size_t header_bytes_;
  bool has_host_ = false;
};

class RequestReader::Impl {
 public:
  explicit Impl(const ReaderBounds& given) : bounds(given) { next(); }
  void next() {
    parts.clear();
    parser.emplace(bounds, parts);
  }
  Progress read(std::string_view message);
  Progress more();
  Progress refuse(const BadRequest& why) {
    parts.bad = why;
    return Progress::kBad;
  }

  ReaderBounds bounds;
  Parts parts;
  std::optional<Parser> parser;
  std::vector<Field> fields;  // of the last request()
};

RequestReader::Progress RequestReader::Impl::read(std::string_view message) {
  parts.message = message;
  // Empty lines before a request are skipped (RFC 9112, 2.2); they count as a part of it.
  while (parts.at + 1 < message.size() && !parser->got_some() && message[parts.at] == '\r' &&
         message[parts.at + 1] == '\n') {
    parts.at += 2;
  }
  const std::string_view rest = message.substr(parts.at);
  if (rest.empty() || (rest == "\r" && !parser->got_some())) return more();
  // Beast asserts that it gets the last chunk, "0\r
  // \r
  // " or longer, in one piece. Every chunked body ends with it, so that many bytes always arrive.
  if (parser->is_header_done() && parser->chunked() && rest.size() < kLastChunkBytes) return more();
  error_code why;
  parts.at += parser->put({rest.data(), rest.size()}, why);
  if (why == error::need_more) return more();
  if (why) return parts.bad.detail.empty() ? refuse(bad_request(why)) : Progress::kBad;
  return parser->is_done() ? Progress::kWhole : more();
}

// The parser bounds only its unparsed input. This bounds the whole message.
RequestReader::Progress RequestReader::Impl::more() {
  const std::size_t size = parts.message.size();
  if (!parser->is_header_done()) {
    return size >= bounds.header_bytes ? refuse(bad_request(error::header_limit)) : Progress::kMore;
  }
  const bool too_long = size - parts.at > bounds.header_bytes ||
                        size > bounds.header_bytes + 2 * bounds.body_bytes + kMostChunkBytes;
  if (parser->chunked() && too_long) return refuse({413, "the chunks of the body are too small"});
  return Progress::kMore;
}

RequestReader::RequestReader(const ReaderBounds& bounds) : impl_(std::make_unique<Impl>(bounds)) {}
RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::read(std::string_view message) {
  return impl_->read(message);
}

std::size_t RequestReader::size() const noexcept { return impl_->parts.at; }

Request RequestReader::request() const {
  const Parts& parts = impl_->parts;
  impl_->fields.clear();
  for (const FieldPieces& field : parts.fields) {
    impl_->fields.push_back({parts.text(field.name), parts.text(field.value)});
  }
  Request out;
  out.method = parts.text(parts.method);
  out.target = parts.text(parts.target);
  out.version = parts.version;
  out.keep_alive = impl_->parser->keep_alive();
  out.fields = impl_->fields;
  out.body = impl_->parser->chunked() ? std::string_view(parts.chunks) : parts.text(parts.body);
  return out;
}

const BadRequest& RequestReader::bad() const noexcept { return impl_->parts.bad; }
bool RequestReader::has_header() const noexcept { return impl_->parser->is_header_done(); }
bool RequestReader::expects_continue() const noexcept { return impl_->parts.expects; }
void RequestReader::next() { impl_->next(); }

}  // namespace sluice::server::http
