# One image for the server, the controller and all tools, for any platform that Python's image and the wheels of
# requirements.lock are there for: linux/amd64 and linux/arm64 (`make images`).
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/bmcsim
COPY requirements.lock ./
RUN /opt/bmcsim/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY profiles ./profiles
COPY bmcsim ./bmcsim
RUN /opt/bmcsim/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps . \
 && /opt/bmcsim/bin/python -m compileall -q /opt/bmcsim/lib \
 && /opt/bmcsim/bin/pip uninstall -q -y pip setuptools \
 && mkdir -p /opt/machine-a-tron/bin \
 && ln -s /opt/bmcsim/bin/bmcsim-mat /opt/machine-a-tron/bin/machine-a-tron

FROM python:3.11-slim-bookworm
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="bmcsim" \
      org.opencontainers.image.description="Thousands of Redfish BMCs in one process" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-bookworm"
COPY --from=build /opt/bmcsim /opt/bmcsim
COPY --from=build /opt/machine-a-tron /opt/machine-a-tron
# container: how `bmcsim mat` knows where it is, whatever runs it.
ENV PATH=/opt/bmcsim/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 container=oci
USER 65532:65532
EXPOSE 1266 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["bmcsim", "health"]
ENTRYPOINT ["bmcsim"]
CMD ["serve", "--listen", "0.0.0.0:1266", "--admin", "0.0.0.0:9090"]
