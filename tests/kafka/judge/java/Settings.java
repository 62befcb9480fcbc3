import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/**
 * Prints what this version of Kafka accepts. Its arguments are lines such as {@code topic segment.bytes=14}: each is answered with
 * {@code yes}, {@code no} or {@code unknown}. The last lines are the levels of metadata.version that it has, the highest one that its
 * brokers support, the lowest and the highest of each feature, the names of all settings, and those that a broker takes as dynamic ones. Works for all versions by reflection, since
 * these classes have moved.
 */
final class Settings {
    private static final String LOG = "org.apache.kafka.storage.internals.log.LogConfig";
    private static final String SERVER = "org.apache.kafka.server.config.AbstractKafkaConfig";

    public static void main(String[] questions) throws Exception {
        Map<String, ConfigDef> known = Map.of("topic", config("kafka.log.LogConfig$", LOG), "broker", config("kafka.server.KafkaConfig$", SERVER));
        for (String question : questions) {
            String[] words = question.split(" ", 2)[1].split("=", 2);
            System.out.println(accepts(known.get(question.split(" ", 2)[0]), words[0], words[1]));
        }
        for (Object level : levels()) {
            System.out.println("level " + level);
        }
        for (Map.Entry<String, ?> feature : features().entrySet()) {
            Object range = feature.getValue();
            Object low = range.getClass().getMethod("min").invoke(range), high = range.getClass().getMethod("max").invoke(range);
            System.out.println("feature " + feature.getKey() + " " + low + " " + high);
        }
        for (Map.Entry<String, ConfigDef> of : known.entrySet()) {
            for (String name : of.getValue().names()) {
                System.out.println("name " + of.getKey() + " " + name);
            }
        }
        for (String name : dynamic()) {
            System.out.println("dynamic " + name);
        }
    }

    @SuppressWarnings("unchecked")
    private static String[] dynamic() throws Exception {
        Class<?> java = typeOf("org.apache.kafka.server.config.DynamicBrokerConfig");
        if (java != null) {
            return String.join(",", (Set<String>) java.getField("ALL_DYNAMIC_CONFIGS").get(null)).split(",");
        }
        Class<?> scala = typeOf("kafka.server.DynamicBrokerConfig$");
        Object names = scala.getMethod("AllDynamicConfigs").invoke(scala.getField("MODULE$").get(null));
        return ((String) typeOf("scala.collection.IterableOnceOps").getMethod("mkString", String.class).invoke(names, ",")).split(",");
    }

    private static String accepts(ConfigDef known, String name, String value) {
        ConfigDef.ConfigKey key = known.configKeys().get(name);
        if (key == null) {
            return "unknown";
        }
        if (value.isEmpty()) {
            return "default " + key.defaultValue;
        }
        try {
            Object parsed = ConfigDef.parseType(name, value, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(name, parsed);
            }
            return "yes";
        } catch (ConfigException refused) {
            return "no";
        }
    }

    private static ConfigDef config(String... names) throws Exception {
        for (String name : names) {
            Class<?> type = typeOf(name);
            if (type == null) {
                continue;
            }
            Object module = name.endsWith("$") ? type.getField("MODULE$").get(null) : null;
            for (Field field : type.getDeclaredFields()) {
                if (ConfigDef.class.isAssignableFrom(field.getType()) && !field.getName().contains("SERVER")) {
                    field.setAccessible(true);
                    return (ConfigDef) field.get(module);
                }
            }
        }
        throw new IllegalStateException(String.join(" or ", names) + " has no ConfigDef");
    }

    /** The ranges of levels that a controller supports, by feature: none before 3.3. */
    @SuppressWarnings("unchecked")
    private static Map<String, ?> features() throws Exception {
        Class<?> quorum = typeOf("org.apache.kafka.controller.QuorumFeatures");
        if (quorum == null) {
            return Map.of();
        }
        for (Method method : quorum.getDeclaredMethods()) {
            if (method.getName().startsWith("default")) {
                Object[] unstable = method.getParameterCount() == 1 ? new Object[] {false} : new Object[0];
                return new TreeMap<>((Map<String, ?>) method.invoke(null, unstable));
            }
        }
        return Map.of();
    }

    private static Object[] levels() throws Exception {
        Class<?> versions = typeOf("org.apache.kafka.server.common.MetadataVersion");
        Map<Integer, Object> found = new TreeMap<>();
        if (versions == null) {
            return new Object[0];
        }
        for (Object version : versions.getEnumConstants()) {
            int level = (Short) versions.getMethod("featureLevel").invoke(version);
            if (level > 0) {
                found.put(level, level + " " + versions.getMethod("version").invoke(version));
            }
        }
        Object latest;
        try {
            latest = versions.getField("LATEST_PRODUCTION").get(null);
        } catch (NoSuchFieldException before37) {
            latest = versions.getMethod("latest").invoke(null);
        }
        found.put(Integer.MAX_VALUE, "latest " + versions.getMethod("featureLevel").invoke(latest));
        return found.values().toArray();
    }

    private static Class<?> typeOf(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException elsewhere) {
            return null;
        }
    }
}
