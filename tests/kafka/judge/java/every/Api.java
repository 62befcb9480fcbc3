package org.apache.kafka.storage.internals.log;

import java.lang.invoke.MethodType;
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Kafka's classes and methods by their plain names: from 2.8 to 4.4 they moved from Scala to Java and between packages, and most
 * got another parameter now and then. A call gives the first ones; the others get what `ordinary` says, as Scala's defaults do.
 */
final class Api {
    private static final List<String> PACKAGES = List.of("kafka.log.", "kafka.common.", "kafka.server.", "kafka.utils.",
            "org.apache.kafka.storage.internals.log.", "org.apache.kafka.storage.internals.utils.", "org.apache.kafka.storage.log.metrics.",
            "org.apache.kafka.server.common.", "org.apache.kafka.server.util.", "org.apache.kafka.common.record.internal.", "org.apache.kafka.common.record.");
    private static final Map<String, Class<?>> FOUND = new ConcurrentHashMap<>();
    private static final Map<String, Method[]> METHODS = new ConcurrentHashMap<>();

    /** The first of these that this version has. */
    static Class<?> find(String... names) {
        for (String name : names) {
            Class<?> found = FOUND.computeIfAbsent(name, Api::lookedUp);
            if (found != null) return found;
        }
        throw new IllegalStateException("this version of Kafka has no " + String.join(" or ", names));
    }

    private static Class<?> lookedUp(String name) {
        for (String prefix : PACKAGES)
            try { return Class.forName(prefix + name); }
            catch (ClassNotFoundException e) { continue; }
        return null;
    }

    static Object make(Class<?> type, Object... first) {
        Constructor<?> best = best(type.getDeclaredConstructors(), first);
        if (best == null) throw new IllegalStateException("no constructor of " + type + " takes " + Arrays.toString(first));
        return run(() -> best.newInstance(filled(best, first)));
    }

    static Object call(Object target, String name, Object... first) {
        Class<?> type = type(target);
        Method best = best(named(type, name), first);
        if (best == null) throw new IllegalStateException("no " + name + " of " + type + " takes " + Arrays.toString(first));
        return run(() -> best.invoke(target instanceof Class<?> ? null : target, filled(best, first)));
    }

    static boolean has(Object target, String name) { return named(type(target), name).length > 0; }

    static boolean takes(Object target, String name, Object... first) { return best(named(type(target), name), first) != null; }

    /** Static methods are called on their class. */
    private static Class<?> type(Object target) { return target instanceof Class<?> c ? c : target.getClass(); }

    static long number(Object target, String name, Object... first) { return ((Number) call(target, name, first)).longValue(); }

    static Object field(Object target, String name) { return run(() -> target.getClass().getField(name).get(target)); }

    /** A constant of an enumeration, in Scala an object of its own. */
    static Object constant(String type, String name, String object) {
        Class<?> found = find(type);
        if (found.isEnum()) return run(() -> found.getField(name).get(null));
        return run(() -> find(object).getField("MODULE$").get(null));
    }

    /** The content of Scala's or Java's option, or null. */
    static Object orNull(Object option) {
        return option instanceof Optional<?> o ? o.orElse(null) : option instanceof Option<?> o ? (o.isEmpty() ? null : o.get()) : option;
    }

    static Iterable<?> each(Object collection) {
        return collection instanceof scala.collection.Iterable<?> s ? CollectionConverters.asJava(s) : (Iterable<?>) collection;
    }

    private static Method[] named(Class<?> type, String name) {
        return METHODS.computeIfAbsent(type.getName() + "." + name, x -> lookedUp(type, name));
    }

    private static Method[] lookedUp(Class<?> type, String name) {
        List<Method> found = new ArrayList<>();
        for (Class<?> c = type; c != null; c = c.getSuperclass())
            for (Method m : c.getDeclaredMethods())
                if (m.getName().equals(name) && !m.isBridge()) found.add(m);
        return found.toArray(new Method[0]);
    }

    /** A getter, else the one with the most parameters: shorter ones fill in defaults that are not always ordinary. */
    private static <E extends Executable> E best(E[] all, Object[] first) {
        E best = null;
        for (E one : all) if (first.length == 0 && one.getParameterCount() == 0) { best = one; break; }
        else if (fits(one, first) && (best == null || one.getParameterCount() > best.getParameterCount())) best = one;
        if (best != null) best.setAccessible(true);
        return best;
    }

    private static boolean fits(Executable one, Object[] first) {
        Class<?>[] types = one.getParameterTypes();
        if (types.length < first.length) return false;
        for (int i = 0; i < types.length; i++) {
            if (i >= first.length) { if (!isOrdinary(types[i])) return false; }
            else if (first[i] != null && !MethodType.methodType(types[i]).wrap().returnType().isInstance(first[i])) return false;
        }
        return true;
    }

    private static Object[] filled(Executable one, Object[] first) {
        Object[] all = Arrays.copyOf(first, one.getParameterCount());
        for (int i = first.length; i < all.length; i++) all[i] = ordinary(one.getParameterTypes()[i]);
        return all;
    }

    private static boolean isOrdinary(Class<?> type) {
        try { ordinary(type); return true; }
        catch (IllegalArgumentException e) { return false; }
    }

    private static Object ordinary(Class<?> type) {
        return switch (type.getName()) {
            case "boolean" -> false;
            case "short" -> (short) 0;
            case "int" -> Integer.MAX_VALUE;                                       // the leader epoch of a follower
            case "java.lang.Object" -> null;                                       // 3.6: a guard that is none
            case "java.lang.String" -> "MD5";
            case "java.util.Set" -> Set.of();
            case "java.util.Optional" -> Optional.empty();
            case "java.util.concurrent.ConcurrentMap" -> new ConcurrentHashMap<>();
            case "java.util.function.Consumer" -> (java.util.function.Consumer<Object>) x -> { };
            case "scala.Option" -> Option.empty();
            case "scala.collection.immutable.Set" -> scala.collection.immutable.Set$.MODULE$.empty();
            case "scala.Function1" -> new AbstractFunction1<Object, Object>() { @Override public Object apply(Object x) { return BoxedUnit.UNIT; } };
            default -> switch (type.getSimpleName()) {
                case "AppendOrigin" -> constant("AppendOrigin", "CLIENT", "AppendOrigin$Client$");
                case "RequestLocal" -> call(type, has(type, "noCaching") ? "noCaching" : "NoCaching");
                case "VerificationGuard" -> run(() -> type.getField("SENTINEL").get(null));
                case "LogOffsetsListener" -> run(() -> type.getField("NO_OP_OFFSETS_LISTENER").get(null));
                case "MetadataVersion" -> call(type, has(type, "latestProduction") ? "latestProduction" : "latest");
                case "ApiVersion" -> call(type, "latestVersion");
                default -> throw new IllegalArgumentException(type + " has no ordinary value");
            };
        };
    }

    private interface Reflection { Object run() throws ReflectiveOperationException; }

    private static Object run(Reflection reflection) {
        try { return reflection.run(); }
        catch (InvocationTargetException e) { throw Api.<RuntimeException>as(e.getCause()); }
        catch (ReflectiveOperationException e) { throw new IllegalStateException(e); }
    }

    /** What Kafka throws is thrown as it is, checked or not. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T as(Throwable e) throws T { throw (T) e; }
}
