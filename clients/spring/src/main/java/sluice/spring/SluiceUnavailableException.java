package sluice.spring;

/** Sluice has not decided, and {@code sluice.on-failure} is {@code deny}. The log says why. */
public class SluiceUnavailableException extends RuntimeException {
  public SluiceUnavailableException() {
    super("The rate limit service is not available");
  }
}
