package sluice.spring;

import java.time.Duration;
import java.util.Optional;

/** A limit denies the request. Immutable. */
public class RateLimitExceededException extends RuntimeException {
  private final String rule;
  private final transient Decision decision;

  public RateLimitExceededException(String rule, String message, Decision decision) {
    super(message);
    this.rule = rule;
    this.decision = decision;
  }

  /** Returns the rule that was asked; {@code *} for those that match. */
  public String getRule() {
    return rule;
  }

  /** Returns the time until the same request would pass; empty if it can never pass, or if the store failed. */
  public Optional<Duration> getRetryAfter() {
    return decision.retryAfter();
  }

  /** Returns the units that the limit holds or -1 if a rule without limits denies. */
  public long getLimit() {
    return decision.limit();
  }

  /** Returns the units that would pass now, or -1 if a rule without limits denies. */
  public long getRemaining() {
    return decision.remaining();
  }

  /** Returns all that Sluice has answered. */
  public Decision getDecision() {
    return decision;
  }
}
