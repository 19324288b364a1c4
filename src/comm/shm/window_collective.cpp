#include "comm/shm/window_collective.h"

#include "comm/add.h"
#include "core/error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddp {
namespace {

using Kind = Collective::Kind;

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

WindowCollective::WindowCollective(const WindowConfig& config, std::shared_ptr<Window> window, int slot,
                                   std::unique_ptr<HostLink> link)
    : config_(config),
      window_(std::move(window)),
      slot_(slot),
      link_(std::move(link)),
      bases_(window_->size()),
      pointers_(window_->size()) {
  DDP_EXPECT(config_.small_bytes <= static_cast<int64_t>(Window::kStagingBytes));
}

void WindowCollective::start(const Collective& collective) {
  collective_ = collective;
  bytes_ = collective.span.count * static_cast<int64_t>(size_of(collective.span.dtype));
  const int64_t ranks = std::ssize(config_.layout.host);
  const bool in_int8 = collective.span.residual && config_.layout.hosts > 1;
  const bool small = collective.kind == Kind::all_reduce && bytes_ <= config_.small_bytes && ranks > 1 && !in_int8;
  const bool needs_place = !small || config_.layout.hosts > 1;
  place_ = needs_place ? window_->place_of(collective.span.data, static_cast<size_t>(bytes_)) : Window::kOutside;
  const bool shares = config_.layout.hosts < ranks;  // on some host
  route_ = small ? Route::small : shares && !window_->is_shared(place_) ? Route::staged : Route::direct;
  begin_ = 0;
  begin_round();
}

void WindowCollective::begin_round() {
  const int half = static_cast<int>(rounds_++ % 2), me = window_->rank();
  round_bytes_ = route_ == Route::staged ? std::min<int64_t>(Window::kStagingBytes, bytes_ - begin_) : bytes_;
  for (int r = 0; r < window_->size(); ++r) {
    if (route_ == Route::direct || window_->size() == 1)
      bases_[r] = r == me ? span() + begin_ : window_->at(place_, r);
    else
      bases_[r] = window_->staging(r, slot_, half);
  }

  const int64_t part = bytes_ / std::ssize(config_.layout.host), end = begin_ + round_bytes_;
  if (collective_.kind != Kind::all_reduce)
    pieces_.cut_parts(config_.rule, config_.layout, me, part, begin_, round_bytes_);
  else if (route_ != Route::small)  // which has no pieces
    pieces_.cut_blocks(config_.rule, me, Window::offset_of(place_) + begin_, round_bytes_);

  if (route_ != Route::direct) {
    int64_t from = begin_, to = end;
    if (collective_.kind == Kind::all_gather) {  // begins with this rank's part of the span
      from = std::clamp(config_.rank * part, begin_, end);
      to = std::clamp((config_.rank + 1) * part, begin_, end);
    }
    copy_bytes(bases_[me] + (from - begin_), span() + from, to - from);
  }
  window_->slot(me, slot_).posts[half] = {collective_.span.count, place_, collective_.kind, collective_.span.dtype,
                                          static_cast<bool>(collective_.span.residual)};
  publish();
  phase_ = Phase::posted;
}

void WindowCollective::publish() {
  window_->slot(window_->rank(), slot_).stage.store(++stage_, std::memory_order_release);
  reached_ = 0;
  ++moves_;
}

bool WindowCollective::all_have_reached() {
  while (reached_ < window_->size() && window_->slot(reached_, slot_).stage.load(std::memory_order_acquire) >= stage_)
    ++reached_;
  return reached_ == window_->size();
}

bool WindowCollective::advance() {
  for (;;) {
    switch (phase_) {
      case Phase::posted:
        if (sums_on_leader() && !is_leader()) {
          publish();
          phase_ = Phase::complete;
          break;
        }
        if (!all_have_reached()) return false;
        compare_posts();
        if (!sum_or_start_link()) return end_round();
        phase_ = Phase::exchange;
        break;
      case Phase::exchange:
        if (link_ && !link_->advance()) return false;
        publish();
        phase_ = Phase::complete;
        break;
      case Phase::complete:
        if (sums_on_leader()) {
          if (window_->slot(0, slot_).stage.load(std::memory_order_acquire) < stage_) return false;
        } else if (!all_have_reached()) {
          return false;
        }
        if (end_round()) return true;
        break;
    }
  }
}

// A rank posts the next round of a slot when all ranks have posted this one, so the post of this round stays until this
// rank has read it. The same holds for staging memory: both have two halves.
void WindowCollective::compare_posts() const {
  const size_t half = (rounds_ - 1) % 2;
  const Post& mine = window_->slot(window_->rank(), slot_).posts[half];
  for (int r = 0; r < window_->size(); ++r) {
    const Post& other = window_->slot(r, slot_).posts[half];
    if (other == mine) [[likely]]
      continue;
    const auto text = [](const Post& post) {
      return fmt::format("{}{} at place {}", describe({post.kind, {nullptr, post.count, post.dtype}}),
                         post.in_int8 ? " in int8" : "", post.place);
    };
    fail(Exit::internal, "ranks of a host disagree about a collective: rank {} of the host started a {}, rank {} a {}",
         window_->rank(), text(mine), r, text(other));
  }
}

std::vector<std::byte*>& WindowCollective::at(int64_t begin) {
  std::ranges::transform(bases_, pointers_.begin(), [begin](std::byte* base) { return base + begin; });
  return pointers_;
}

bool WindowCollective::sum_or_start_link() {
  const auto dtype = collective_.span.dtype;
  std::byte* const mine = bases_[window_->rank()];
  if (route_ == Route::small) {
    const bool is_alone = config_.layout.hosts == 1;
    std::byte* const to = is_alone ? span() : mine;
    sum_in_order(to, bases_, elements(bytes_), dtype);
    if (link_) link_->start_small(to, Window::offset_of(place_), bytes_, dtype);
    return !is_alone;
  }
  if (link_)
    link_->start(mine, collective_.span.residual.from(elements(begin_)), pieces_, collective_.kind, dtype, *this);
  else if (config_.layout.hosts == 1)
    sum_pieces();
  return true;
}

void WindowCollective::sum_pieces() {
  for (const Piece& piece : pieces_.chunk(0)) {
    if (collective_.kind == Kind::all_reduce) {
      if (window_->size() > 1) sum_everywhere(at(piece.begin), elements(piece.bytes), collective_.span.dtype);
    } else {
      collect(piece);
      spread(piece);
    }
  }
}

void WindowCollective::collect(const Piece& piece) {
  std::byte* const mine = bases_[window_->rank()] + piece.begin;
  if (collective_.kind == Kind::all_gather)
    copy_bytes(mine, bases_[piece.owner] + piece.begin, piece.bytes);
  else if (window_->size() > 1)
    sum_in_order(mine, at(piece.begin), elements(piece.bytes), collective_.span.dtype);
}

void WindowCollective::spread(const Piece& piece) {
  const std::byte* const mine = bases_[window_->rank()] + piece.begin;
  if (collective_.kind == Kind::reduce_scatter) return copy_bytes(bases_[piece.owner] + piece.begin, mine, piece.bytes);
  for (std::byte* const base : bases_) copy_bytes(base + piece.begin, mine, piece.bytes);
}

// True if this was the last round.
bool WindowCollective::end_round() {
  ++moves_;
  if (route_ == Route::staged)
    copy_bytes(span() + begin_, bases_[window_->rank()], round_bytes_);
  else if (sums_on_leader())
    copy_bytes(span(), bases_[0], bytes_);
  begin_ += round_bytes_;
  if (begin_ >= bytes_) return true;
  begin_round();
  return false;
}

int64_t WindowCollective::moves() const { return moves_ + (link_ ? link_->messages() : 0); }

void WindowCollective::abandon() {
  new std::shared_ptr(window_);  // messages may arrive in its staging memory
  if (link_) link_->abandon();
}

}  // namespace ddp
