// node build.mjs page FILE    bundles src/ into the C++ constants of page.h
// node build.mjs test         checks the types, then runs test/*.test.ts
//
// Runs in the directory that holds the tools (node_modules), beside links to src and test: see CMakeLists.txt.
import {spawnSync} from "node:child_process";
import {createHash} from "node:crypto";
import {mkdirSync, readdirSync, rmSync, writeFileSync, readFileSync} from "node:fs";
import {build} from "esbuild";

const OPTIONS = {
  bundle: true,
  preserveSymlinks: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  logLevel: "warning",
};

async function bundle(entry, extra) {
  const result = await build({...OPTIONS, entryPoints: [entry], write: false, ...extra});
  return result.outputFiles[0].text.trim();
}

const hashOf = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function policyOf(script, style) {
  return [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'self'",
    "img-src data: blob:", // the page's own icon, and figures on their way to a PNG
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

// Long literals in pieces; octal escapes take at most three digits, so what follows one cannot become part of it.
function literal(text) {
  const bytes = Buffer.from(text, "utf8");
  const lines = [];
  for (let at = 0; at < bytes.length; at += 100) {
    let line = "";
    for (const byte of bytes.subarray(at, at + 100)) {
      const plain = byte >= 0x20 && byte < 0x7f && !'"\\?'.includes(String.fromCharCode(byte));
      line += plain ? String.fromCharCode(byte) : "\\" + byte.toString(8).padStart(3, "0");
    }
    lines.push(`    "${line}"`);
  }
  return lines.join("\n");
}

async function writePage(file) {
  const script = await bundle("src/main.tsx", {minify: true, format: "iife", target: "es2021"});
  const style = await bundle("src/style/page.css", {minify: true});
  for (const [name, text] of [
    ["script", script],
    ["style", style],
  ]) {
    if (text.toLowerCase().includes(`</${name}`)) throw new Error(`the ${name} would end its own element`);
  }
  const page = readFileSync("src/page.html", "utf8")
    .replace("<!--style-->", () => `<style>${style}</style>`)
    .replace("<!--script-->", () => `<script>${script}</script>`);
  writeFileSync(
    file,
    `// Made by router/web/build.mjs.
#include "router/web/page.h"

namespace kvrelay::web {

const char kPage[] =
${literal(page)};
const size_t kPageBytes = sizeof(kPage) - 1;
const char kPageContentSecurityPolicy[] =
${literal(policyOf(script, style))};

}  // namespace kvrelay::web
`,
  );
}

async function runTests() {
  const types = spawnSync("node_modules/.bin/tsc", ["--project", "tsconfig.json"], {stdio: "inherit"});
  if (types.status !== 0) return 1;
  rmSync("tests", {recursive: true, force: true});
  mkdirSync("tests");
  const names = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  if (names.length === 0) throw new Error("there are no tests");
  for (const name of names) {
    await build({
      ...OPTIONS,
      entryPoints: [`test/${name}`],
      platform: "node",
      format: "esm",
      sourcemap: "inline",
      outfile: `tests/${name.replace(/\.ts$/, ".mjs")}`,
    });
  }
  const files = names.map((name) => `tests/${name.replace(/\.ts$/, ".mjs")}`);
  return spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], {stdio: "inherit"}).status;
}

const [command, file] = process.argv.slice(2);
if (command === "page" && file) {
  await writePage(file);
} else if (command === "test") {
  process.exitCode = await runTests();
} else {
  throw new Error("usage: node build.mjs page FILE | test");
}
