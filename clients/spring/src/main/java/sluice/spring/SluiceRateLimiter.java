package sluice.spring;

import java.util.Map;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import reactor.core.publisher.Mono;

/**
 * The limits of the filter RequestRateLimiter of Spring Cloud Gateway, for each route. Thread-safe. A
 * request is one round trip to Sluice.
 *
 * <p>A route configures its {@link Limit} by arguments that begin with {@code sluice.}. Other routes
 * have the limit of {@code sluice.gateway.limit}.
 */
public class SluiceRateLimiter extends AbstractRateLimiter<SluiceRateLimiter.Limit> {
  private final SluiceClient client;
  private final Limit defaults;

  public SluiceRateLimiter(SluiceClient client, Limit defaults, ConfigurationService configuration) {
    super(Limit.class, "sluice", configuration);
    this.client = client;
    this.defaults = defaults;
  }

  /**
   * Fails with an {@link IllegalStateException} if neither the route nor the default has a limit, and
   * with an {@link IllegalArgumentException} if the key is empty.
   */
  @Override
  public Mono<Response> isAllowed(String route, String key) {
    if (key.isEmpty()) { // Sluice reads an empty attribute as absent: the limit would not apply
      return Mono.error(new IllegalArgumentException("the key of a request to " + route + " is empty"));
    }
    return decision(getConfig().getOrDefault(route, defaults), route, key)
        .delayUntil(Decision::pause)
        .map(decision -> new Response(decision.allowed(), decision.headers()));
  }

  private Mono<Decision> decision(Limit limit, String route, String key) {
    if (limit.rule != null) {
      return client.check(limit.rule, Map.of(limit.attribute, key));
    }
    if (limit.requests > 0) {
      String counter = route.length() + ":" + route + ":" + key; // unlike that of any other pair
      return client.throttle(counter, limit.burst, limit.requests, limit.seconds);
    }
    return Mono.error(new IllegalStateException("the route " + route
        + " needs sluice.rule or sluice.requests, or sluice.gateway.limit as a default"));
  }

  /** A rule of Sluice, or `requests` per `seconds` and `burst` more at once. */
  public static class Limit {
    /** The name of a rule of Sluice. The numbers then have no effect. */
    private String rule;
    /** The attribute that the rule reads as its key. */
    private String attribute = "key";
    /** How many requests of a key pass per {@code seconds}. */
    private long requests;
    /** The period in seconds. */
    private long seconds = 1;
    /** How many more requests of a key pass at once. */
    private long burst;

    public String getRule() {
      return rule;
    }

    public void setRule(String value) {
      rule = value;
    }

    public String getAttribute() {
      return attribute;
    }

    public void setAttribute(String value) {
      attribute = value;
    }

    public long getRequests() {
      return requests;
    }

    public void setRequests(long value) {
      requests = value;
    }

    public long getSeconds() {
      return seconds;
    }

    public void setSeconds(long value) {
      seconds = value;
    }

    public long getBurst() {
      return burst;
    }

    public void setBurst(long value) {
      burst = value;
    }
  }
}
