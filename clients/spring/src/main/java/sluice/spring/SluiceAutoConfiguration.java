package sluice.spring;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/** Provides a {@link SluiceClient}, unless the application has one. */
@AutoConfiguration
@EnableConfigurationProperties(SluiceProperties.class)
public class SluiceAutoConfiguration {

  @Bean
  @ConditionalOnMissingBean
  SluiceClient sluiceClient(SluiceProperties properties) {
    return new SluiceClient(properties);
  }
}
