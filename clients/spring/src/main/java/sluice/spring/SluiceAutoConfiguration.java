package sluice.spring;

import org.springframework.aop.config.AopConfigUtils;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.context.annotation.Role;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.util.function.SingletonSupplier;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/**
 * Provides a {@link SluiceClient}, the {@link RateLimit} annotation, and with Spring's web a
 * {@link RateLimitExceptionHandler}. Client and handler give way to those of the application.
 */
@AutoConfiguration
@Import(SluiceAutoConfiguration.Proxies.class)
@EnableConfigurationProperties(SluiceProperties.class)
public class SluiceAutoConfiguration {

  @Bean
  @ConditionalOnMissingBean
  SluiceClient sluiceClient(SluiceProperties properties) {
    return new SluiceClient(properties);
  }

  @Bean
  @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
  static RateLimitAdvisor rateLimitAdvisor(ObjectProvider<SluiceClient> client, BeanFactory beans) {
    return new RateLimitAdvisor(SingletonSupplier.of(client::getObject), beans);
  }

  /** Creates the proxies also without AspectJ and with {@code spring.aop.auto: false}. */
  static class Proxies implements ImportBeanDefinitionRegistrar {
    @Override
    public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
      AopConfigUtils.registerAutoProxyCreatorIfNecessary(registry);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(RestControllerAdvice.class)
  static class Web {
    @Bean
    @ConditionalOnMissingBean
    RateLimitExceptionHandler rateLimitExceptionHandler() {
      return new RateLimitExceptionHandler();
    }
  }
}
