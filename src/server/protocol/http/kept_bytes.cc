#include "server/protocol/http/kept_bytes.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice::server::http {

void KeptBytes::set(Holder& holder, std::size_t bytes,
                    const std::shared_ptr<const std::string>& text, net::SteadyTime now) {
  if (bytes == 0 && text == nullptr) {
    if (holder.is_listed_) forget(holder);
    return;
  }
  if (!holder.is_listed_) {
    holders_.push_back(&holder);
    holder.is_listed_ = true;
    holder.place_ = holders_.size() - 1;
    holder.since_ = now;
  }
  total_ += bytes;
  total_ -= holder.bytes_;
  holder.bytes_ = bytes;
  if (text != holder.text_) {
    release_text(holder);
    if (text != nullptr && ++texts_[text.get()] == 1) total_ += text->size();
    holder.text_ = text;
  }
  while (total_ > most_ && holders_.size() > 1) drop(now);
}

void KeptBytes::release_text(Holder& holder) noexcept {
  if (holder.text_ == nullptr) return;
  const auto found = texts_.find(holder.text_.get());
  if (--found->second == 0) {
    total_ -= holder.text_->size();
    texts_.erase(found);
  }
  holder.text_.reset();
}

void KeptBytes::forget(Holder& holder) noexcept {
  release_text(holder);
  total_ -= holder.bytes_;
  holder.bytes_ = 0;
  holders_[holder.place_] = holders_.back();
  holders_[holder.place_]->place_ = holder.place_;
  holders_.pop_back();
  holder.is_listed_ = false;
}

void KeptBytes::drop(net::SteadyTime now) {
  const auto costs = [now](const Holder* holder) {
    const std::size_t bytes = holder->bytes_ + (holder->text_ ? holder->text_->size() : 0);
    const auto since = std::min(holder->since_, now);  // a holder may have read the clock earlier
    const auto time = std::chrono::floor<std::chrono::milliseconds>(now - since).count();
    return std::uint64_t{bytes} * static_cast<std::uint64_t>(time + 1);
  };
  Holder& dearest =
      **std::max_element(holders_.begin(), holders_.end(),
                         [&](const Holder* a, const Holder* b) { return costs(a) < costs(b); });
  forget(dearest);
  dearest.drop_kept();
}

}  // namespace sluice::server::http
