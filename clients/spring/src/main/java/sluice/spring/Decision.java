package sluice.spring;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * What Sluice has decided about one request. Immutable.
 *
 * @param allowed whether the request may pass
 * @param reason the reason as in docs/reference/commands.md, such as {@code ok} or {@code limited};
 *     {@link #UNAVAILABLE} if Sluice did not decide
 * @param limit the units that the tightest limit holds, or -1 if no limit applied
 * @param remaining the units that would pass now, or -1 if no limit applied
 * @param resetAfter the time until the limit is fully replenished; empty if no limit applied, and for a
 *     budget that does not renew
 * @param retryAfter if denied: the time until the same request would pass; empty if it never passes, or if
 *     the store failed
 * @param delay the time to wait before the request is processed: with a leaky bucket in queue mode
 */
public record Decision(boolean allowed, String reason, long limit, long remaining,
    Optional<Duration> resetAfter, Optional<Duration> retryAfter, Duration delay) {

  /** The reason if Sluice did not answer, so that {@code sluice.on-failure} has decided. */
  public static final String UNAVAILABLE = "unavailable";

  static Decision unavailable(boolean allowed) {
    Optional<Duration> retryAfter = allowed ? Optional.empty() : Optional.of(Duration.ofSeconds(1));
    return new Decision(allowed, UNAVAILABLE, -1, -1, Optional.empty(), retryAfter, Duration.ZERO);
  }

  /** Returns whether Sluice has decided, and not {@code sluice.on-failure}. */
  public boolean isDecided() {
    return !reason.equals(UNAVAILABLE);
  }

  /**
   * Returns the decision as fields of an HTTP response: {@code X-RateLimit-Limit},
   * {@code X-RateLimit-Remaining} and {@code X-RateLimit-Reset} if a limit applied (without the last
   * for a budget that does not renew), and {@code Retry-After} if the request is denied. Seconds are
   * rounded up.
   */
  public Map<String, String> headers() {
    Map<String, String> headers = new LinkedHashMap<>();
    if (limit >= 0) {
      headers.put("X-RateLimit-Limit", Long.toString(limit));
      headers.put("X-RateLimit-Remaining", Long.toString(remaining));
      resetAfter.ifPresent(time -> headers.put("X-RateLimit-Reset", seconds(time)));
    }
    retryAfter.ifPresent(time -> headers.put("Retry-After", seconds(time)));
    return headers;
  }

  /** Throws the exception of a denied request. */
  void orThrow(String rule, String message) {
    if (!allowed) {
      throw isDecided() ? new RateLimitExceededException(rule, message, this)
          : new SluiceUnavailableException();
    }
  }

  /** Completes after the delay. */
  Mono<Long> pause() {
    return delay.isZero() ? Mono.empty() : Mono.delay(delay);
  }

  private static String seconds(Duration time) {
    return Long.toString(time.plusMillis(999).toSeconds());
  }
}
