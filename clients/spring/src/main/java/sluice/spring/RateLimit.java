package sluice.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Asks Sluice before each call of the method, and throws a {@link RateLimitExceededException}
 * instead of the call if a limit is reached.
 *
 * <pre>{@code
 * @RateLimit(rule = "send-code", key = "#email.address", message = "Too many codes")
 * public void sendCode(Email email) { … }
 * }</pre>
 *
 * <p>Like all of Spring AOP, it applies to public methods of beans that other beans call. A method
 * that returns a {@code Mono} or {@code Flux} asks at each subscription, without blocking, and its
 * publisher fails. Any other method asks when it is called, and its thread waits for the answer. If
 * a leaky bucket in queue mode delays the request, the call waits that long.
 *
 * <p>Throws a {@link SluiceUnavailableException} if Sluice has not decided and
 * {@code sluice.on-failure} is {@code deny}.
 *
 * <p>Cost: one round trip to Sluice, and the evaluation of {@link #key()}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface RateLimit {

  /** The name of a rule of Sluice. It decides even if its {@code match} does not match. */
  String rule();

  /**
   * A SpEL expression whose value, as text, says for whom the rule counts. It reads parameters by
   * name ({@code #email.address}; compile with {@code -parameters}) or number ({@code #p0}), beans
   * ({@code @tenants.current()}) and members of the object ({@code tenant}). Without it the rule
   * receives no attribute.
   *
   * <p>An expression that cannot be parsed fails when the bean is created. The call throws an
   * {@link IllegalStateException} if the expression fails, or if its value is null or empty.
   */
  String key() default "";

  /** The attribute that the rule reads as its key: {@code key: "{key}"} in the rule. */
  String attribute() default "key";

  /** The message of the exception. */
  String message() default "Too many requests";
}
