package sluice.spring;

import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpStatus;
import org.springframework.http.ProblemDetail;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/**
 * Answers requests that are denied, in servlet and WebFlux applications, with JSON as in RFC 9457:
 * 429 with {@code Retry-After} and the {@code X-RateLimit} fields for a
 * {@link RateLimitExceededException}, and 503 for a {@link SluiceUnavailableException}. An advice of
 * the application for these exceptions comes before this one. Thread-safe.
 */
@RestControllerAdvice
@Order(Ordered.LOWEST_PRECEDENCE)
public class RateLimitExceptionHandler {

  @ExceptionHandler
  ResponseEntity<ProblemDetail> exceeded(RateLimitExceededException denied) {
    ProblemDetail body =
        ProblemDetail.forStatusAndDetail(HttpStatus.TOO_MANY_REQUESTS, denied.getMessage());
    denied.getRetryAfter().ifPresent(time -> body.setProperty("retryAfterMs", time.toMillis()));
    return ResponseEntity.of(body)
        .headers(headers -> headers.setAll(denied.getDecision().headers())).build();
  }

  @ExceptionHandler
  ResponseEntity<ProblemDetail> unavailable(SluiceUnavailableException denied) {
    ProblemDetail body =
        ProblemDetail.forStatusAndDetail(HttpStatus.SERVICE_UNAVAILABLE, denied.getMessage());
    return ResponseEntity.of(body)
        .headers(headers -> headers.setAll(Decision.unavailable(false).headers())).build();
  }
}
