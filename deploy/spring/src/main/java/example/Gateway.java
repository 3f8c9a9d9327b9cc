package example;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.context.annotation.Bean;
import reactor.core.publisher.Mono;

@SpringBootApplication
public class Gateway {
  public static void main(String[] arguments) {
    SpringApplication.run(Gateway.class, arguments);
  }

  /** RequestRateLimiter counts by the address of the client. */
  @Bean
  KeyResolver address() {
    return exchange -> Mono.just(exchange.getRequest().getRemoteAddress().getAddress().getHostAddress());
  }
}
