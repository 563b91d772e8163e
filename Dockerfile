# A static binary on an empty base, run by nobody in particular.
#
#   docker build --build-arg VERSION=1.2.3 -t unavez .
#
# Build with the newest Go; SECURITY.md says which faults older ones have.
ARG GO_VERSION=1.27.3

FROM golang:${GO_VERSION}-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/unavez ./cmd/unavez \
 && mkdir -p /out/data

FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="unavez" \
      org.opencontainers.image.description="Payments take effect once" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/unavez /usr/bin/unavez
COPY --from=build --chown=65532:65532 /out/data /data
# Only what is written lives in /data: an SQLite ledger and the admin token.
WORKDIR /data
USER 65532:65532
ENV PATH=/usr/bin \
    UNAVEZ_LISTEN_INGRESS=0.0.0.0:8080 \
    UNAVEZ_LISTEN_PRIVATE=127.0.0.1:8081 \
    UNAVEZ_LOG_FORMAT=json
EXPOSE 8080
VOLUME /data
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["unavez", "healthcheck"]
ENTRYPOINT ["unavez"]
CMD ["serve", "--config", "/etc/unavez/unavez.yaml"]
