#include "stores/redis/cluster/node.h"

#include <utility>

#include "stores/redis/client/target.h"

namespace sluice::redis {

Node::Node(Parts parts, ServerAddress address)
    : parts_(std::move(parts)),
      address_(std::move(address)),
      reconnect_(parts_.target->options.first_backoff, parts_.target->options.longest_backoff,
                 [this] { return parts_.loop.random(); }) {}

bool Node::submit(Command& command, Kind kind, Time now) {
  if (!link_ && (kind == Kind::kUrgent || reconnect_.is_due(now))) make_link(kind);
  const bool is_refused = !link_ || (reconnect_.is_failing() && kind != Kind::kUrgent);
  if (is_refused && !is_ready()) return false;
  link_->submit(command, now, kind == Kind::kAsking);
  return true;
}

void Node::connect(Time now) {
  if (!link_ && reconnect_.is_due(now)) make_link(Kind::kPlain);
}

void Node::make_link(Kind kind) {
  if (kind != Kind::kUrgent && parts_.connecting >= kMostConnecting) {
    why_ = address_.to_string() + ": too many other servers are being connected to";
    return;
  }
  set_connecting(true);
  reconnect_.connecting();
  link_ = std::make_unique<Link>(parts_.loop, parts_.target, address_, Link::Purpose::kServer,
                                 static_cast<Link::Owner&>(*this), parts_.counters);
}

void Node::set_connecting(bool connecting) noexcept {
  if (connecting == is_connecting_) return;
  is_connecting_ = connecting;
  parts_.connecting += connecting ? 1 : ~std::size_t{0};
}

void Node::on_ready(Link&) {
  set_connecting(false);
  reconnect_.ready(parts_.loop.now());
  parts_.owner.on_ready(*this);
}

void Node::on_ended(Link&, std::string_view why, bool was_ready) {
  why_ = address_.to_string() + ": " + std::string(why);  // before the link, which may own the text
  reconnect_.ended(parts_.loop.now());
  set_connecting(false);
  link_.reset();
  parts_.owner.on_ended(*this, why_, was_ready);
}

bool Node::on_error(Link&, Command& command, std::string_view error) {
  return parts_.owner.on_error(*this, command, error);
}

void Node::on_script_sent(Link&, const Script& script) {
  parts_.owner.on_script_sent(*this, script);
}

}  // namespace sluice::redis
