"""Nothing is lost and nothing is silently wrong: what users do, by the public interface alone."""
