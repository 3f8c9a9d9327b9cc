package sluice.spring;

import static org.springframework.test.web.servlet.request.MockMvcRequestBuilders.get;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.content;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.header;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.jsonPath;
import static org.springframework.test.web.servlet.result.MockMvcResultMatchers.status;

import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.springframework.http.MediaType;
import org.springframework.test.web.reactive.server.WebTestClient;
import org.springframework.test.web.servlet.setup.MockMvcBuilders;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

class RateLimitExceptionHandlerTest {
  @RestController
  static class Codes {
    @GetMapping("/denied")
    void denied() {
      throw new RateLimitExceededException("send-code", "Too many codes", new Decision(false, "limited", 3,
          0, Optional.of(Duration.ofSeconds(9)), Optional.of(Duration.ofMillis(1001)), Duration.ZERO));
    }

    @GetMapping("/unavailable")
    void unavailable() {
      throw new SluiceUnavailableException();
    }
  }

  @Test
  void aServletApplicationAnswersJson() throws Exception {
    var mvc = MockMvcBuilders.standaloneSetup(new Codes())
        .setControllerAdvice(new RateLimitExceptionHandler()).build();
    mvc.perform(get("/denied").accept(MediaType.TEXT_HTML)).andExpect(status().isTooManyRequests())
        .andExpect(header().string("Retry-After", "2"))
        .andExpect(header().string("X-RateLimit-Limit", "3"))
        .andExpect(header().string("X-RateLimit-Remaining", "0"))
        .andExpect(content().contentType(MediaType.APPLICATION_PROBLEM_JSON))
        .andExpect(jsonPath("$.status").value(429))
        .andExpect(jsonPath("$.detail").value("Too many codes"))
        .andExpect(jsonPath("$.retryAfterMs").value(1001));
    mvc.perform(get("/unavailable")).andExpect(status().isServiceUnavailable())
        .andExpect(header().string("Retry-After", "1"));
  }

  @Test
  void aWebFluxApplicationAnswersJson() {
    WebTestClient web = WebTestClient.bindToController(new Codes())
        .controllerAdvice(new RateLimitExceptionHandler()).build();
    web.get().uri("/denied").exchange().expectStatus().isEqualTo(429)
        .expectHeader().valueEquals("Retry-After", "2")
        .expectHeader().contentType(MediaType.APPLICATION_PROBLEM_JSON)
        .expectBody().jsonPath("$.detail").isEqualTo("Too many codes")
        .jsonPath("$.retryAfterMs").isEqualTo(1001);
    web.get().uri("/unavailable").exchange().expectStatus().isEqualTo(503);
  }
}
