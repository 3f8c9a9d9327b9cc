// The front ends of a server: HTTP, gRPC, RESP and administration, each with the sockets that it
// listens on and the handlers of each event loop. The list of them opens, drains and reports all.

#include "server/runtime/front_ends.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/request_target.h"
#include "limiter/reason_report.h"
#include "server/api/admin/live_page.h"
#include "server/api/check/check_endpoint.h"
#include "server/api/envoy/rls_service.h"
#include "server/api/resp/command_handler.h"
#include "server/config/secret.h"
#include "server/net/address.h"
#include "server/protocol/grpc/connection.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/http/access.h"
#include "server/protocol/http/connection.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/route.h"
#include "server/protocol/resp/connection.h"

namespace sluice::server {

Status FrontEnd::open(std::size_t loops, std::span<const KnownClient> clients,
                      net::InheritedSockets& inherited) {
  const Config& config = parts_.config;
  const auto address = parse_address(config.*address_.address);
  if (!address) return Unexpected{config.*address_.address + ": " + address.error()};
  if (address->kind == Address::Kind::kOff) return {};
  if (const net::TlsFiles& files = config.*address_.tls; !files.cert_file.empty()) {
    auto tls = net::TlsContext::open(files, protocol_);
    if (!tls) return Unexpected{std::string(name()) + ".tls: " + tls.error()};
    tls_ = std::move(*tls);
  }
  auto listening = net::listen_at(*address, loops, inherited);
  if (!listening) {
    return Unexpected{listening.error() + "; --" + std::string(name()) +
                      " ADDR selects another address, or off"};
  }
  listening_ = std::move(*listening);
  for (const auto& socket : listening_->sockets) descriptors_.push_back(socket.descriptor());
  const auto reach = !listening_->unix_path.empty() ? Access::Reach::kUnixSocket
                     : listening_->loopback         ? Access::Reach::kLoopback
                                                    : Access::Reach::kNetwork;
  share_ = &parts_.descriptors.add_listener(name() == "admin");
  access_.emplace(reach, clients, parts_.config.hosts);
  if (const auto wrong = find_unprotected(config, address_, listening_->name);
      reach == Access::Reach::kNetwork && !wrong.empty()) {
    return Unexpected{wrong};
  }
  return {};
}

net::Acceptor::Parts FrontEnd::accept_in(Loop& loop) {
  return {.loop = loop.context(),
          .recorder = loop.session().recorder,
          .warn = warning_writer(parts_.log),
          .connections = connections_,
          .most = bounds_.connections,
          .clock = parts_.clock,
          .descriptors = &parts_.descriptors,
          .share = share_,
          .tls = tls_.get(),
          .handshake_timeout = bounds_.header_timeout};
}

Status FrontEnd::reload() {
  if (!tls_) return {};
  if (const auto read = tls_->reload(); !read) {
    return Unexpected{"the certificate was not replaced: " + read.error()};
  }
  return {};
}

std::string FrontEnd::url() const {
  if (!is_open() || !listening_->unix_path.empty()) return {};
  return (has_tls() ? "https://" : "http://") + listening_->name;
}

void FrontEnd::keep_unix_socket() noexcept {
  if (listening_) listening_->removes_unix_path = false;
}

void FrontEnd::unlink() noexcept {
  // Once: afterwards, another server may have a socket at this path.
  if (!listening_ || !std::exchange(listening_->removes_unix_path, false)) return;
  ::unlink(listening_->unix_path.c_str());
}

namespace {

// Returns the clients of the key `of` with their secrets, which are `what`. Warns of weak ones.
Expected<std::vector<KnownClient>> known_clients(
    std::vector<KnownClient> clients, std::string_view of,
    Expected<std::string> (*read)(const SecretSource& source), std::string_view what, Log& log) {
  for (KnownClient& client : clients) {
    if (!client.source.is_set()) continue;
    auto secret = read(client.source);
    if (!secret) return Unexpected{std::string(of) + ": " + secret.error()};
    const std::string named = std::string(what) + " '" + client.name + "'";
    const std::string weakness = find_weakness(named, client.source, *secret);
    if (!weakness.empty()) log.warning(weakness);
    client.secret = *std::move(secret);
  }
  return clients;
}

// Returns bounds under which a file of rules fits into a body.
Bounds bounds_for_rules(Bounds bounds) {
  constexpr std::size_t kMostRules = std::size_t{4} << 20;
  bounds.body_bytes = std::max(bounds.body_bytes, kMostRules);
  return bounds;
}

// Answers the calls of the gRPC front end. Borrows `access`.
class RlsHandler final : public grpc::Handler {
 public:
  RlsHandler(const Session::Parts& session, const FrontEndParts& parts, const Access& access)
      : service_(session, parts.envoy),
        recorder_(session.recorder),
        log_(parts.log),
        access_(access) {}

  void handle(const grpc::Call& call, grpc::Reply& reply) override {
    const auto role = access_.role_of(call.authorization, call.certificate_role);
    if (!role) return refuse(call, reply, grpc::Code::kUnauthenticated, kUnknownToken);
    const bool may_operate = *role >= Role::kOperate;
    const auto* const method = std::find(kRlsPaths.begin(), kRlsPaths.end(), call.path);
    const RlsStatus status = service_.call(call.message, may_operate, reply.bytes, call.traceparent,
                                           static_cast<RlsMethod>(method - kRlsPaths.begin()));
    if (!reply.bytes.empty() || status.reason == Reason::kOk) return;
    const auto code = status.forbidden ? grpc::Code::kPermissionDenied
                                       : static_cast<grpc::Code>(report_of(status.reason).grpc);
    if (status.refused) return refuse(call, reply, code, status.message);
    reply.fail(code, status.message);
  }
  void finished(const grpc::Call& call, const grpc::Reply& reply,
                std::chrono::nanoseconds took) override {
    recorder_.observe(metrics::FrontEnd::kGrpc, took);
    if (!log_.options().access) return;
    log_.access("POST", call.path, static_cast<int>(reply.code), call.peer, took,
                metrics::to_string(metrics::FrontEnd::kGrpc));
  }
  void follow_rules() override { service_.follow_rules(); }

 private:
  void refuse(const grpc::Call& call, grpc::Reply& reply, grpc::Code code, std::string_view why) {
    reply.fail(code, why);
    recorder_.add(metrics::Event::kNotAccepted);
    log_.refused("POST", call.path, static_cast<int>(code), why, call.peer);
  }

  RlsService service_;
  metrics::Recorder& recorder_;
  Log& log_;
  const Access& access_;
};

// Changes of overrides that a loop takes at once; the file is written for one at a time.
constexpr net::FiberPool::Options kOverrideFibers{.most = 16};

enum class Answer : std::uint8_t {
  kCheck,
  kSettle,
  kReport,
  kGatewayReport,
  kRelease,
  kExtend,
  kCancel,
  kAuth,
  kJson,
  kOperations,
};

// Says why a request must not be answered, by its host and other fields: its own, or those of a
// client's request, about which a gateway asks or which it reports.
using FindRefusal = std::optional<Problem> (Access::*)(const http::Request& request) const;
constexpr FindRefusal kOwn = &Access::find_refusal;
constexpr FindRefusal kOfOther = &Access::find_gateway_refusal;

// What answers the requests for a path, or those of them that have a query.
struct Endpoint {
  http::Route route;
  Answer answer;
  metrics::FrontEnd metric = metrics::FrontEnd::kCheck;
  FindRefusal find_refusal = kOwn;  // null: load balancers may send any fields
  Role role = Role::kCheck;         // the least that a client needs; kNobody: no token is read
};

using http::Parameter;

constexpr std::string_view kDecisions = "200 403 429";
constexpr std::string_view kJson = "application/json";
constexpr Parameter kOfCheck[] = {
    {.name = "Idempotency-Key",
     .about = "The id under which budgets count the request, if the body has none",
     .is_header = true}};
constexpr Parameter kMethod{
    .name = "X-Original-Method", .about = "The method of the client's request", .is_header = true};
constexpr Parameter kTarget{.name = "X-Original-URI",
                            .about =
                                "Its path and query; instead of both, X-Forwarded-Method and "
                                "X-Forwarded-Uri",
                            .is_header = true};
constexpr Parameter kOfAuth[] = {
    {.name = "deny",
     .about = "Deny with this status, for gateways that understand no other",
     .words = "403"},
    kMethod,
    kTarget};
constexpr Parameter kOfReport[] = {
    {.name = "status",
     .about = "The status of the response, 100 to 599 if a limit counts it",
     .required = true},
    kMethod,
    kTarget};

template <CheckKind Kind>
void write_body(base::JsonWriter& json) {
  write_check_schema(Kind, json);
}
// A permit, or the request that was held.
void write_extend_body(base::JsonWriter& json) {
  json.begin_object().key("anyOf").begin_array();
  write_permit_schema(json);
  write_check_schema(CheckKind::kExtend, json);
  json.end_array().end_object();
}
void write_rls_body(base::JsonWriter& json) {
  json.begin_object().member("type", "object").member("description", "A RateLimitRequest in JSON");
  json.end_object();
}

constexpr Endpoint kEndpoints[] = {
    {{.method = "POST",
      .path = "/v1/check",
      .about = "Decide a request, or an array of them",
      .parameters = kOfCheck,
      .body_type = kJson,
      .body = write_body<CheckKind::kCheck>,
      .answers = "200 403 409 429 503",
      .decides = true},
     Answer::kCheck},
    {{.path = "/v1/auth",
      .about = "Decide the request that a gateway describes by header fields, with any method",
      .parameters = kOfAuth,
      .answers = kDecisions,
      .answer_types = {},
      .has_limits = true},
     Answer::kAuth,
     metrics::FrontEnd::kAuth,
     kOfOther,
     Role::kNobody},
    {{.method = "POST",
      .path = "/json",
      .about = "Decide a request of Envoy's rate limit service",
      .body_type = kJson,
      .body = write_rls_body,
      .answers = "200 429",
      .problems = "503"},
     Answer::kJson,
     metrics::FrontEnd::kJson},
    {{.method = "POST",
      .path = "/v1/settle",
      .about = "Replace an estimated cost by the actual one, or end the hold of an id",
      .body_type = kJson,
      .body = write_body<CheckKind::kSettle>,
      .answers = "200 403 409 429 503",
      .decides = true},
     Answer::kSettle},
    {{.path = "/v1/report",
      .about = "Count the response that a gateway reports, with any method",
      .parameters = kOfReport,
      .answer_types = {},
      .needs_query = true},
     Answer::kGatewayReport,
     metrics::FrontEnd::kCheck,
     kOfOther,
     Role::kOperate},
    {{.method = "POST",
      .path = "/v1/report",
      .about = "Count the response of a request, or of an array of them",
      .body_type = kJson,
      .body = write_body<CheckKind::kReport>,
      .answers = kDecisions,
      .decides = true},
     Answer::kReport},
    {{.method = "POST",
      .path = "/v1/release",
      .about = "Release a permit",
      .body_type = kJson,
      .body = write_permit_schema,
      .members = "outcome reason",
      .problems = "404 503"},
     Answer::kRelease},
    {{.method = "POST",
      .path = "/v1/extend",
      .about = "Start the lease of a permit again, or keep the hold of an id for longer",
      .body_type = kJson,
      .body = write_extend_body,
      .answers = "200 403 404 409 429 503",
      .problems = "404 503",
      .decides = true},
     Answer::kExtend},
    {{.method = "POST",
      .path = "/v1/cancel",
      .about = "End the hold of an id and spend nothing",
      .body_type = kJson,
      .body = write_body<CheckKind::kCancel>,
      .answers = "200 403 409 429 503",
      .decides = true},
     Answer::kCancel},
    {{.method = "GET",
      .path = "/healthz",
      .about = "Whether the process serves",
      .answer_types = "text/plain"},
     Answer::kOperations,
     metrics::FrontEnd::kOther,
     nullptr,
     Role::kNobody},
    {{.method = "GET",
      .path = "/readyz",
      .about = "Whether the server accepts requests; 503 while it drains",
      .answers = "200 503",
      .answer_types = "text/plain"},
     Answer::kOperations,
     metrics::FrontEnd::kOther,
     nullptr,
     Role::kNobody},
    {{.method = "GET",
      .path = "/metrics",
      .about = "Metrics as Prometheus text",
      .answer_types = "text/plain",
      .problems = "503"},
     Answer::kOperations,
     metrics::FrontEnd::kOther,
     kOwn,
     Role::kNobody},
};
constexpr Endpoint kOtherPaths{
    {}, Answer::kOperations, metrics::FrontEnd::kOther, kOwn, Role::kNobody};

// Says what people find here who try it with a browser, or with a path of another server.
const std::string& about_paths() {
  static const std::string all = [] {
    std::string text = "unknown path; expected ";
    std::string_view before;
    for (const Endpoint& one : kEndpoints) {
      if (one.route.path == before) continue;
      const bool is_last = &one == std::end(kEndpoints) - 1;
      text.append(before.empty() ? "" : is_last ? " or " : ", ").append(one.route.path);
      before = one.route.path;
    }
    return text +
           "; this listener answers clients and gateways, the live page is at the address of the "
           "administration (listen.admin)";
  }();
  return all;
}

const Endpoint& find_endpoint(const base::RequestTarget& target, bool is_post) noexcept {
  for (const Endpoint& one : kEndpoints) {
    const bool needs_more = one.route.needs_query && is_post && target.query.empty();
    if (one.route.path == target.path && !needs_more) return one;
  }
  return kOtherPaths;
}

// Whether the body of /v1/extend is about a request that was held, and not about a permit: it has a
// member of such a body.
bool is_about_hold(std::string_view body) noexcept {
  constexpr std::string_view kMembers[] = {R"("id")", R"("hold_ms")", R"("attributes")",
                                           R"("limit")"};
  return std::ranges::any_of(
      kMembers, [body](std::string_view member) { return body.find(member) != body.npos; });
}

}  // namespace

std::vector<http::Route> public_routes() {
  std::vector<http::Route> all;
  for (const Endpoint& one : kEndpoints) {
    all.push_back(one.route);
    all.back().takes_token = one.role != Role::kNobody;
    all.back().may_be_refused = one.find_refusal != nullptr;
  }
  return all;
}

PublicHandler::PublicHandler(const FrontEndParts& parts, Loop& loop, const Access& access,
                             net::FiberSleeps* waiting)
    : recorder_(loop.session().recorder),
      log_(parts.log),
      operations_(parts.operations.in(&loop.sleeps())),
      access_(access),
      session_(loop.session()),
      auth_(session_, parts.trusted, parts.log),
      check_(session_, waiting),
      rls_(loop.session(), parts.envoy) {
  session_.use_trace([this] {
    trace_buffers_.clear();
    return find_header(request_->fields, "traceparent", trace_buffers_);
  });
}

void PublicHandler::handle(const http::Request& request, http::Response& response) {
  const auto target = base::split_target(request.target);
  const bool is_post = request.method == "POST";
  const Endpoint& endpoint = find_endpoint(target, is_post);
  endpoint_ = endpoint.metric;
  request_ = &request;
  if (endpoint.find_refusal != nullptr) {
    if (const auto refusal = (access_.*endpoint.find_refusal)(request)) {
      return refuse_request(response, *refusal);
    }
  }
  bool may_operate = false;
  if (endpoint.role != Role::kNobody) {
    const auto role = access_.role_of(request);
    if (!role) {
      response.add("WWW-Authenticate", "Bearer realm=\"sluice\"");
      return refuse_request(response, {401, kUnknownToken});
    }
    if (*role < endpoint.role) return refuse_request(response, {403, kNeedsOperate});
    may_operate = *role >= Role::kOperate;
  }
  if (!is_post && endpoint.route.method == "POST") {
    response.add("Allow", "POST");
    return refuse_request(response, {405, std::string(endpoint.route.path) +
                                              " accepts only POST, with JSON as its body"});
  }
  switch (endpoint.answer) {
    case Answer::kCheck: return check_.handle(CheckKind::kCheck, request, may_operate, response);
    case Answer::kSettle: return check_.handle(CheckKind::kSettle, request, may_operate, response);
    case Answer::kReport: return check_.handle(CheckKind::kReport, request, may_operate, response);
    case Answer::kGatewayReport: return auth_.report(request, response);
    case Answer::kRelease: return answer_permit(true, session_, request, response);
    case Answer::kExtend:
      if (!is_about_hold(request.body)) return answer_permit(false, session_, request, response);
      return check_.handle(CheckKind::kExtend, request, may_operate, response);
    case Answer::kCancel: return check_.handle(CheckKind::kCancel, request, may_operate, response);
    case Answer::kAuth: return auth_.handle(request, response);
    case Answer::kJson: return answer_json(rls_, request, may_operate, response);
    case Answer::kOperations:
      if (endpoint.route.path.empty()) return refuse_request(response, {404, about_paths()});
      return operations_.handle(target.path, request, response);
  }
}

void PublicHandler::finished(const http::Request& request, const http::Response& response,
                             std::chrono::nanoseconds took) {
  recorder_.observe(endpoint_, took);
  if (!response.refusal.empty()) {
    recorder_.add(metrics::Event::kNotAccepted);
    log_.refused(request.method, request.target, response.status, response.refusal, request.peer);
  }
  if (!log_.options().access) return;
  log_.access(request.method, request.target, response.status, request.peer, took,
              metrics::to_string(endpoint_));
}

void AdminHandler::handle(const http::Request& request, http::Response& response) {
  const std::string_view path = base::split_target(request.target).path;
  if (path == "/healthz" || path == "/readyz") return operations_.handle(path, request, response);
  if (answer_live_page(path, request, response)) return;
  if (const auto refusal = access_.find_refusal(request)) return answer_problem(response, *refusal);
  if (path.starts_with("/v1/")) return endpoint_.handle(request, response);
  operations_.handle(path, request, response);
}

void AdminHandler::finished(const http::Request& request, const http::Response& response,
                            std::chrono::nanoseconds took) {
  recorder_.observe(metrics::FrontEnd::kOther, took);
  if (!log_.options().access) return;
  log_.access(request.method, request.target, response.status, request.peer, took, "admin");
}

FrontEnds::FrontEnds(const FrontEndParts& parts, MakeAdmin admin)
    : parts_(parts),
      make_admin_(std::move(admin)),
      http_("http", "http/1.1", parts, parts.config.bounds),
      grpc_("grpc", "h2", parts, parts.config.bounds),
      resp_("resp", {}, parts, parts.config.bounds),
      admin_("admin", "http/1.1", parts, bounds_for_rules(parts.config.bounds)) {}

Status FrontEnds::open(std::size_t loops, net::InheritedSockets& inherited) {
  auto clients = known_clients(parts_.config.clients, "clients", read_token,
                               "the token of the client", parts_.log);
  if (!clients) return Unexpected{clients.error()};
  clients_ = std::move(*clients);
  for (FrontEnd* const one : all_) {
    auto opened = one->open(one == &admin_ ? 1 : loops, clients_, inherited);
    if (opened && one->is_open()) opened = check(*one);
    if (!opened) return opened;
  }
  for (const auto& unused : inherited) {
    net::SocketAddress address;
    address.read_name_of(unused.descriptor());
    parts_.log.warning("an inherited socket is closed, because no listener has its address",
                       {{"address", address.text()}});
  }
  return {};
}

// Reads the users of RESP, and says if nobody may operate.
Status FrontEnds::check(FrontEnd& opened) {
  if (&opened == &resp_) {
    auto users = known_clients(parts_.config.resp_users, "resp.users", read_password,
                               "the password of the RESP user", parts_.log);
    if (!users) return Unexpected{users.error()};
    resp_users_ = resp::Users(std::move(*users));
  } else if (&opened != &admin_ && opened.access().nobody_operates()) {
    parts_.log.info(std::string(opened.name()) + " at " + opened.address() +
                    " refuses refunds, resets and takes of several units, because no client in "
                    "`clients` has the role operate");
  }
  return {};
}

void FrontEnds::start(Loop& loop, std::size_t number) {
  if (http_.is_open()) loop.add(make_http(loop, number));
  if (grpc_.is_open()) loop.add(make_grpc(loop, number));
  if (resp_.is_open()) loop.add(make_resp(loop, number));
}

// HTTP: /v1/check, /v1/auth, /json and the operations.
std::unique_ptr<net::LoopFrontEnd> FrontEnds::make_http(Loop& loop, std::size_t number) {
  net::FiberSleeps* waiting = nullptr;
  net::FiberPool::Options fibers;  // /metrics waits, whatever the store does
  if (http_.bounds().waiting > 0) {
    waiting = &loop.sleeps();
    fibers.most += http_.bounds().waiting;
  }
  const auto make = [this, &loop, waiting] {
    return std::make_unique<PublicHandler>(parts_, loop, http_.access(), waiting);
  };
  return std::make_unique<http::FrontEnd>(
      http::Options{http_.bounds(), make, fibers, http_.role_of_certificate()},
      http_.accept_in(loop), http_.take_socket(number));
}

// gRPC: Envoy's rate limit service and Limitador's.
std::unique_ptr<net::LoopFrontEnd> FrontEnds::make_grpc(Loop& loop, std::size_t number) {
  const auto open_stream = [this, &context = loop.context()](const grpc::Call& call,
                                                             grpc::StreamOut& out) {
    return open_quota(call, out, context);
  };
  const auto make = [this, &loop] {
    return std::make_unique<RlsHandler>(loop.session(), parts_, grpc_.access());
  };
  return std::make_unique<grpc::FrontEnd>(
      grpc::Options{.bounds = grpc_.bounds(),
                    .paths = {kRlsPaths.begin(), kRlsPaths.end()},
                    .stream_paths = {kQuotaPath},
                    .open_stream = open_stream,
                    .most_streams = parts_.config.grpc_streams,
                    .max_age = parts_.config.grpc_max_age,
                    .serving = parts_.ready,
                    .make = make,
                    .fibers = loop.fibers(),
                    .role_of_certificate = grpc_.role_of_certificate()},
      grpc_.accept_in(loop), grpc_.take_socket(number));
}

// A proxy takes units for many requests, so it needs the role that may take several at once.
std::unique_ptr<grpc::StreamIn> FrontEnds::open_quota(const grpc::Call& call, grpc::StreamOut& out,
                                                      boost::asio::io_context& loop) const {
  const auto role = grpc_.access().role_of(call.authorization, call.certificate_role);
  if (role && *role >= Role::kOperate) return parts_.quota->open_stream(call, out, loop);
  parts_.quota->refuse(out, call.peer,
                       role ? grpc::Code::kPermissionDenied : grpc::Code::kUnauthenticated,
                       role ? kNeedsOperate : kUnknownToken);
  return nullptr;
}

// RESP: the commands for clients of Redis.
std::unique_ptr<net::LoopFrontEnd> FrontEnds::make_resp(Loop& loop, std::size_t number) {
  ServerOverrides* const overrides = parts_.overrides;
  const bool has_file =
      loop.stores() == nullptr && overrides != nullptr && !overrides->path().empty();
  std::function<void(const std::function<void()>&)> run_elsewhere;
  if (has_file && parts_.main != nullptr) {
    run_elsewhere = [this, &loop](const auto& work) {
      net::run_elsewhere(parts_.main->context(), loop.sleeps(), work);
    };
  }
  const auto make = [this, &loop, run_elsewhere] {
    return std::make_unique<resp::CommandHandler>(resp::CommandHandler::Parts{
        .session = loop.session(),
        .users = resp_users_,
        .clock = parts_.clock,
        .version = SLUICE_VERSION,
        .started = started_,
        .connections = resp_.connections(),
        .access_log = parts_.log.options().access ? &parts_.log : nullptr,
        .on_network = !resp_.listening().loopback,
        .overrides = parts_.overrides,
        .redis = loop.redis(),
        .top_keys = parts_.top_keys,
        .run_elsewhere = run_elsewhere});
  };
  return std::make_unique<resp::FrontEnd>(
      resp::Options{.bounds = resp_.bounds(),
                    .users = resp_users_,
                    .last_id = last_resp_id_,
                    .unix_path = resp_.listening().unix_path,
                    .idle_timeout = parts_.config.resp_idle_timeout,
                    .make = make,
                    .fibers = loop.fibers(),
                    .fibers_apart = run_elsewhere ? std::optional(kOverrideFibers) : std::nullopt},
      resp_.accept_in(loop), resp_.take_socket(number));
}

void FrontEnds::start_administration(Loop& loop) {
  if (!admin_.is_open()) return;
  const auto make = [this, &loop] {
    return std::make_unique<AdminHandler>(make_admin_(), parts_.operations.in(&loop.sleeps()),
                                          admin_.access(), loop.session().recorder, parts_.log);
  };
  // /metrics waits, whatever the store does.
  loop.add(std::make_unique<http::FrontEnd>(
      http::Options{admin_.bounds(), make, kAdminFibers, admin_.role_of_certificate()},
      admin_.accept_in(loop), admin_.take_socket(0)));
}

void FrontEnds::unlink() noexcept {
  for (FrontEnd* const one : all_) {
    if (one != &admin_) one->unlink();
  }
}

std::vector<int> FrontEnds::descriptors() const {
  std::vector<int> out;
  for (const FrontEnd* const one : all_) {
    out.insert(out.end(), one->descriptors().begin(), one->descriptors().end());
  }
  return out;
}

void FrontEnds::keep_unix_sockets() noexcept {
  for (FrontEnd* const one : all_) one->keep_unix_socket();
}

std::vector<RuleError> FrontEnds::reload() {
  std::vector<RuleError> errors;
  for (FrontEnd* const one : all_) {
    if (const auto read = one->reload(); !read) {
      parts_.log.error("the files of a front end could not be reloaded",
                       {{"front_end", one->name()}, {"why", read.error()}});
      errors.push_back({.file = one->cert_file(),
                        .what = std::string(one->name()) + ": " + read.error(),
                        .expected = {}});
    }
  }
  return errors;
}

std::string FrontEnds::ready_line() const {
  std::string line = "ready";
  for (const ServerStatus::Listener& one : status()) line += " " + one.name + "=" + one.address;
  return line;
}

std::string FrontEnds::example() const {
  if (!http_.is_open()) return {};
  const std::string insecure = http_.has_tls() ? "--insecure " : "";
  const std::string& path = http_.listening().unix_path;
  const std::string at = path.empty()
                             ? insecure + http_.url() + "/v1/check"
                             : "--unix-socket " + path + " " + insecure +
                                   (http_.has_tls() ? "https" : "http") + "://localhost/v1/check";
  return "curl -i " + at +
         R"( -d '{"attributes":{"method":"POST","path":"/login","ip":"203.0.113.9"}}')";
}

std::size_t FrontEnds::connections() const noexcept {
  return http_.connections() + grpc_.connections() + resp_.connections();
}

std::size_t FrontEnds::most_connections() const {
  std::size_t sum = 0;
  for (const FrontEnd* const one : all_) sum += one->most_connections();
  return sum;
}

std::vector<ServerStatus::Listener> FrontEnds::status() const {
  std::vector<ServerStatus::Listener> out;
  for (const FrontEnd* const one : all_) {
    out.push_back(
        {std::string(one->name()), one->address(), one->connections(), one->most_connections()});
  }
  return out;
}

void FrontEnds::add_metrics(metrics::Registry& registry) const {
  const auto rows_of = [this](std::size_t ServerStatus::Listener::* number) {
    return [this, number] {
      std::vector<metrics::Registry::Row> rows;
      for (const ServerStatus::Listener& one : status()) {
        if (one.most > 0) rows.push_back({{one.name}, static_cast<double>(one.*number)});
      }
      return rows;
    };
  };
  registry.add_rows("sluice_connections", "Open connections of each listener.", {"listener"},
                    rows_of(&ServerStatus::Listener::connections));
  registry.add_rows("sluice_connections_max",
                    "Maximum number of open connections of each listener.", {"listener"},
                    rows_of(&ServerStatus::Listener::most));
}

}  // namespace sluice::server
