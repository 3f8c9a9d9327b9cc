#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {

void Reply::line(char kind, std::string_view text) {
  out_.put(kind);
  out_.put_text(text);
  out_.put("\r\n");
}

void Reply::error(std::string_view text) {
  while (text.ends_with('\r') || text.ends_with('\n')) text.remove_suffix(1);
  out_.put('-');
  for (const char c : text) out_.put(c == '\r' || c == '\n' ? ' ' : c);
  out_.put("\r\n");
}

void Reply::integer(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0) return out_.put_line(':', bits);
  out_.put(':');
  out_.put_line('-', 0 - bits);
}

void Reply::bulk(std::string_view bytes) {
  head('$', bytes.size());
  out_.put_text(bytes);
  out_.put("\r\n");
}

void Reply::verbatim(std::string_view text) {
  if (!resp3_) return bulk(text);
  head('=', text.size() + 4);
  out_.put("txt:");
  out_.put_text(text);
  out_.put("\r\n");
}

}  // namespace sluice::server::resp
