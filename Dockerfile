FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/bmcsim
COPY requirements.lock ./
RUN /opt/bmcsim/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY profiles ./profiles
COPY bmcsim ./bmcsim
RUN /opt/bmcsim/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps . \
 && /opt/bmcsim/bin/python -m compileall -q /opt/bmcsim/lib \
 && /opt/bmcsim/bin/pip uninstall -q -y pip setuptools

FROM python:3.11-slim-bookworm
COPY --from=build /opt/bmcsim /opt/bmcsim
ENV PATH=/opt/bmcsim/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 1266 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9090/healthz', timeout=2)"]
ENTRYPOINT ["bmcsim"]
CMD ["serve", "--listen", "0.0.0.0:1266", "--admin", "0.0.0.0:9090"]
