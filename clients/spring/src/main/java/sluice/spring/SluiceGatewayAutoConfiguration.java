package sluice.spring;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.cloud.gateway.config.GatewayAutoConfiguration;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Primary;

/**
 * Provides the filter {@code Sluice} and the {@link SluiceRateLimiter} of Spring Cloud Gateway. The
 * latter is primary, since Spring provides another one if it finds Redis.
 */
@AutoConfiguration(after = SluiceAutoConfiguration.class, before = GatewayAutoConfiguration.class)
@ConditionalOnClass(GatewayAutoConfiguration.class)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
@ConditionalOnBooleanProperty(
    name = "spring.cloud.gateway.server.webflux.enabled", matchIfMissing = true)
public class SluiceGatewayAutoConfiguration {

  @Bean
  @ConfigurationProperties("sluice.gateway.limit")
  SluiceRateLimiter.Limit sluiceDefaultLimit() {
    return new SluiceRateLimiter.Limit();
  }

  @Bean
  @Primary
  @ConditionalOnMissingBean
  SluiceRateLimiter sluiceRateLimiter(SluiceClient client, SluiceRateLimiter.Limit defaults,
      ConfigurationService configuration) {
    return new SluiceRateLimiter(client, defaults, configuration);
  }

  @Bean
  @ConditionalOnMissingBean
  SluiceGatewayFilterFactory sluiceGatewayFilterFactory(SluiceClient client) {
    return new SluiceGatewayFilterFactory(client);
  }
}
