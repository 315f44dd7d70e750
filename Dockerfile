# syntax=docker/dockerfile:1
# The command in a container, for serve, record, monitor and the others: docs/containers.md.

FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY . .
RUN node build.mjs \
 && find dist/esm \( -name '*.map' -o -name '*.d.ts' \) -delete
# Drops what only the build needs, and takes in the optional packages that the command loads, at the versions of the lock file.
# hadolint ignore=DL3016
RUN npm install --save-prod --omit=dev --ignore-scripts --no-audit --no-fund \
      undici prom-client hyparquet-writer @nats-io/transport-node @nats-io/jetstream @nats-io/kv \
 && mkdir /data

# Node and its libraries: no shell, no package manager.
FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /app
# The package.json of the repository, and not that of the build, which has other dependencies by now.
COPY package.json LICENSE ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist/THIRD-PARTY-LICENSES ./dist/
COPY --from=build /build/dist/esm ./dist/esm
# The only folder that it writes to, so the rest may be read-only.
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV NODE_ENV=production HEALTH_URL=http://127.0.0.1:9464/health
VOLUME /data
EXPOSE 8080 8180 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["/nodejs/bin/node", "-e", "fetch(process.env.HEALTH_URL).then(({ status }) => process.exit(status < 500 ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/esm/cli/sluice.js"]
CMD ["--help"]
