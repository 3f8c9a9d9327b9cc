#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "server/net/http_client.h"

namespace sluice::cli {

// The flags of a subcommand that select a server's administration.
struct AdminFlags {
  std::string admin;
  std::string config;
  std::string token_file;
  std::string ca_file;    // of an https:// address
  std::string cert_file;  // a certificate and its key
  double timeout = 10;    // seconds for an answer
};

// Adds --admin, --config, --token-file, --ca-file, --cert-file and --timeout; not --config if the
// command has it already. With `servers`, --admin may be repeated, and its addresses go there.
std::shared_ptr<AdminFlags> add_admin_flags(Command command, bool has_config = false,
                                            std::vector<std::string>* servers = nullptr);

// A client of the administration of a server, whose caller waits for every answer. Each request has
// a connection of its own, because a server closes one after `bounds.idle_timeout` or
// `bounds.requests_per_connection`.
//
// Not thread-safe. Never repeats a request. An answer that takes longer than the timeout is an
// error.
class AdminClient {
 public:
  using Answer = server::net::HttpClient::Answer;

  // Connects to the address of the flags, or of the configuration file, with its token and its TLS.
  // Throws Failed: the flags are wrong, or why the server cannot be reached.
  explicit AdminClient(const AdminFlags& flags);

  // A refusal is an answer. Throws Failed: why there is no answer.
  // `if_match`: the version of the rules that the request expects, if it is not empty.
  Answer ask(std::string_view method, std::string_view target, std::string body = {},
             std::string_view if_match = {});
  // Throws Failed too if the answer is a refusal, or not a JSON object.
  boost::json::object ask_json(std::string_view method, std::string_view target,
                               std::string body = {}, std::string_view if_match = {});
  // Returns the objects of a list in an answer, which must have it. Throws Failed: strange().
  std::vector<const boost::json::object*> objects_in(const boost::json::object& json,
                                                     std::string_view name) const;
  // The error of a refusal: "WHAT; EXPECTED".
  std::string refusal(const Answer& answer) const;
  const std::string& address() const noexcept { return shown_; }
  // Says that the peer answered like another program.
  std::string strange() const;

 private:
  void connect();
  std::string hint(const server::net::HttpClient::Failure& failure) const;

  server::Address address_;
  server::net::HttpClient::Options options_;
  std::string shown_;  // the address as text
  std::string host_;   // without https://
  std::string token_;
  std::string found_;  // " (of ./sluice.yaml)"
  const bool is_of_config_;
  bool is_tls_ = false, has_certificate_ = false, is_named_ = true, has_asked_ = false;
  std::optional<server::net::HttpClient> connection_;
};

// Returns the body of an answer as a JSON object; nothing if it is none.
std::optional<boost::json::object> json_of(const AdminClient::Answer& answer);

// Returns those of the flags that select the server, as option_text() does.
std::string options_of(const AdminFlags& flags);

// Returns the flags for one of several servers.
AdminFlags flags_of(const AdminFlags& flags, const std::vector<std::string>& servers,
                    const std::string& address);

// Runs `ask` for each of these servers, or for that of the flags if there are none. Of several,
// each has its address above what is printed, except for JSON, and one that fails does not keep the
// others from being asked. Returns the largest exit status; that of Failed::is_done only if all
// have it. Throws Failed: the only server fails.
int ask_servers(const AdminFlags& flags, const std::vector<std::string>& servers,
                std::string_view command, const std::function<int(const AdminFlags&)>& ask,
                bool is_json = false);

// Returns the name of the limit of a rule that has one. `query` selects the rule, and may select a
// limit. Throws Failed: the rule, as the user wrote it, has none or several.
std::string only_limit(AdminClient& client, const std::string& query, std::string_view rule);

// Returns a member of an answer, or 0 if there is no such number.
std::uint64_t number_in(const boost::json::object& json, std::string_view name);

// Returns a member of an answer if it is a text, or an empty text.
std::string text_in(const boost::json::object& json, std::string_view name);
// Returns whether a member of an answer is true.
bool is_true(const boost::json::object& json, std::string_view name);
// Calls `use` with each object of a list in an answer.
void each_object(const boost::json::object& json, std::string_view name,
                 const std::function<void(const boost::json::object&)>& use);

// Returns the text as a part of a path or of a query: other bytes than letters, digits and "-._~"
// are written as %XX.
std::string url_encoded(std::string_view text);
// The same, but a '%' begins an escape already.
std::string encoded_once(std::string_view text);

}  // namespace sluice::cli
