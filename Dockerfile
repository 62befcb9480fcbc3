# Winnow's command line as an image: docs/how-to/container.md. Runs as any user, with a read-only
# root; only /tmp and the log directories are written to.

# The base is pinned by its digest, that of the image for all platforms: .github/dependabot.yml
# proposes newer ones. Licenses stay: docs/reference/licenses.md.
#
# Spark's jars that Winnow never loads are left out, as in the archive for hosts without a network.
FROM debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f AS built
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless python3-venv
COPY . /build
RUN /build/spark-submit.sh package --offline --output /winnow.tar.gz \
    && tar -xzf /winnow.tar.gz -C /opt \
    && rm -rf /build /winnow.tar.gz \
    && /opt/winnow/spark-submit.sh --version

FROM debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-21-jre-headless python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/man \
    && find /usr/share/doc -type f ! -name 'copyright*' -delete
COPY --from=built /opt/winnow /opt/winnow
# Users without an entry in /etc/passwd would have / as their home, which is read-only.
ENV HOME=/tmp LANG=C.UTF-8
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/opt/winnow/spark-submit.sh"]
CMD ["--help"]
