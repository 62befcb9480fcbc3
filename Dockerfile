# Winnow's command line as an image: docs/how-to/container.md. Runs as any user, with a read-only
# root; only /tmp and the log directories are written to.

# Spark's jars that Winnow never loads are left out, as in the archive for hosts without a network.
FROM debian:trixie-slim AS built
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless python3-venv
COPY . /build
RUN /build/spark-submit.sh package --offline --output /winnow.tar.gz \
    && tar -xzf /winnow.tar.gz -C /opt \
    && rm -rf /build /winnow.tar.gz \
    && /opt/winnow/spark-submit.sh --version

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/man
COPY --from=built /opt/winnow /opt/winnow
# Users without an entry in /etc/passwd would have / as their home, which is read-only.
ENV HOME=/tmp LANG=C.UTF-8
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/opt/winnow/spark-submit.sh"]
CMD ["--help"]
