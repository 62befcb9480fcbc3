import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Properties;

/**
 * Prints for each argument whether this version of Kafka accepts it as server.properties: {@code yes}, or {@code no} with the reason. An
 * argument is a list of {@code key=value} with a vertical bar between two. Works for all versions by reflection.
 */
final class ServerSettings {
    public static void main(String[] files) throws Exception {
        Method parse = Class.forName("kafka.server.KafkaConfig").getMethod("fromProps", Properties.class);
        for (String file : files) {
            Properties properties = new Properties();
            for (String line : file.split("\\|")) {
                String[] words = line.split("=", 2);
                properties.put(words[0], words[1]);
            }
            try {
                parse.invoke(null, properties);
                System.out.println("yes");
            } catch (InvocationTargetException refused) {
                System.out.println("no " + refused.getCause().toString().replace('\n', ' '));
            }
        }
    }
}
