# The operator's image: docker buildx build --platform linux/amd64,linux/arm64 .
# The legacy builder does not set BUILDPLATFORM. "linux" is then the builder's own architecture.
ARG BUILDPLATFORM=${BUILDPLATFORM:-linux}
ARG GO_IMAGE=docker.io/library/golang:1.26
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
ARG TARGETOS TARGETARCH VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/manager ./cmd/agent ./cmd/purge-api

FROM scratch
# The same path and user as in the image that test/cluster/images.sh makes without a daemon.
COPY --from=build /out/manager /out/agent /out/purge-api /
USER 65532:65532
ENTRYPOINT ["/manager"]
