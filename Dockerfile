# syntax=docker/dockerfile:1
# The command in a container, for serve, record, monitor and the others: docs/operate/containers.md.

FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
COPY packages/engine/package.json packages/engine/
COPY packages/confidential-http/package.json packages/confidential-http/
COPY packages/nats/package.json packages/nats/
COPY packages/sinks/package.json packages/sinks/
COPY packages/cli/package.json packages/cli/
COPY packages/mcp/package.json packages/mcp/
COPY packages/create-sluice/package.json packages/create-sluice/
COPY test/support/package.json test/support/
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY . .
RUN node build.mjs \
 && find dist packages/*/dist \( -name '*.map' -o -name '*.d.ts' \) -delete
# What is ours, as folders: the links of node_modules would lead nowhere in the image.
RUN mkdir -p /ours/sluice \
 && cp -r package.json dist /ours/sluice/ \
 && for name in engine confidential-http nats sinks cli mcp; do \
      mkdir -p "packages/$name/node_modules" "/ours/@sluice/$name" \
      && cp -r "packages/$name/package.json" "packages/$name/dist" "packages/$name/node_modules" "/ours/@sluice/$name/" \
      || exit 1; \
    done \
 && rm -r /ours/sluice/dist/cjs /ours/@sluice/*/dist/cjs
# Drops what only the build needs, and the optional packages, but for those that the command loads, at the versions of the lock
# file.
# hadolint ignore=DL3016
RUN npm install --save-prod --omit=dev --omit=optional --omit=peer --ignore-scripts --no-audit --no-fund \
      undici prom-client secp256k1 hyparquet-writer @nats-io/transport-node @nats-io/jetstream @nats-io/kv \
 && rm -r node_modules/sluice node_modules/@sluice node_modules/create-sluice \
 && mkdir /data

# Node and its libraries: no shell, no package manager.
FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /app
COPY LICENSE ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /ours ./node_modules
# The only folder that it writes to, so the rest may be read-only.
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV NODE_ENV=production HEALTH_URL=http://127.0.0.1:9464/health
VOLUME /data
EXPOSE 8080 8180 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["/nodejs/bin/node", "-e", "fetch(process.env.HEALTH_URL).then(({ status }) => process.exit(status < 500 ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/nodejs/bin/node", "/app/node_modules/@sluice/cli/dist/esm/sluice.js"]
CMD ["--help"]
