#pragma once

#include <string>
#include <string_view>

namespace sluice::replay {

// The style and the script of the report page; report_html.cc writes its content.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2230; --soft: #586174; --line: #dfe3ea;
  --allowed: #5b8def; --allowed-fill: #a9c4f7; --denied: #c5283d; --denied-fill: #e0566a;
  --trial: #8a5a00; --trial-back: #fdf1d6; --trial-fill: #e8b54d; --bar: #f3c9cf; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12151c; --card: #1b202a; --ink: #e8ebf1; --soft: #a3adbf; --line: #323a49;
  --allowed: #7aa5f5; --allowed-fill: #345694; --denied: #ff8797; --denied-fill: #d8495f;
  --trial: #ffcf70; --trial-back: #3a2f14; --trial-fill: #a9781c; --bar: #5c2731; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.4rem 0 .1rem; overflow-wrap: anywhere; }
p { margin: 0 0 .75rem; } .soft { color: var(--soft); } .small { font-size: .875rem; }
code, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace;
  font-size: .9em; overflow-wrap: anywhere; }
section, .note { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.1rem 1.25rem 1.25rem; margin-top: 1rem; }
.note { border-color: var(--trial); background: var(--trial-back); padding: .7rem 1.25rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1rem 0 0; }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: .7rem 1rem .75rem; }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; font-size: 1.4rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
dd small { display: block; font-size: .8125rem; font-weight: 400; color: var(--soft); }
.bad { color: var(--denied); }
.badge { display: inline-block; margin-left: .5rem; padding: 0 .55rem; border-radius: 1rem;
  font-size: .8125rem; font-weight: 600; color: var(--trial); background: var(--trial-back);
  border: 1px solid var(--trial); vertical-align: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0 0; padding: 0;
  list-style: none; font-size: .875rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem;
  border-radius: 2px;
  vertical-align: -1px; }
.legend .a { background: var(--allowed-fill); border: 1px solid var(--allowed); }
.legend .t { background: var(--trial-fill); border: 1px solid var(--trial); }
.legend .d { background: var(--denied-fill); border: 1px solid var(--denied); }
.plot { position: relative; height: 13rem; margin: 1rem 0 0 3.4rem;
  border-bottom: 1px solid var(--soft); }
.plot.low { height: 7.5rem; }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; display: block;
  overflow: visible; }
.plot .y { position: absolute; right: 100%; margin-right: .5rem; transform: translateY(-50%);
  font-size: .75rem; color: var(--soft); white-space: nowrap; font-variant-numeric: tabular-nums; }
.axis { position: relative; height: 1.6rem; margin: .3rem 0 0 3.4rem; font-size: .75rem;
  color: var(--soft); }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:first-child.edge { transform: none; }
.allowed { fill: var(--allowed-fill); stroke: var(--allowed); stroke-width: 1; }
.denied { fill: var(--denied-fill); stroke: var(--denied); stroke-width: 1; }
.trial { fill: var(--trial-fill); stroke: var(--trial); stroke-width: 1; }
.allowed, .denied, .trial, .grid, .tick { vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); stroke-width: 1; } .tick { stroke: var(--soft); stroke-width: 1; }
.hit { fill: transparent; } .hit:hover { fill: var(--ink); fill-opacity: .09; }
#tip { position: fixed; z-index: 9; pointer-events: none; padding: .4rem .6rem;
  border-radius: .4rem;
  background: var(--ink); color: var(--page); font-size: .8125rem; line-height: 1.4;
  white-space: pre-line; font-variant-numeric: tabular-nums; max-width: 18rem; }
.scroll { overflow-x: auto; margin: .5rem 0 0; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .1rem 0 .4rem; }
th, td { text-align: right; padding: .35rem .75rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top; }
th { font-weight: 600; color: var(--soft); } tbody th { font-weight: 400; color: var(--ink); }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal;
  overflow-wrap: anywhere; min-width: 9rem; }
td:last-child, th:last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
.share { min-width: 9rem;
  background: linear-gradient(to right, var(--bar) var(--part), transparent 0)
  no-repeat left .3rem / calc(100% - 5.5rem) 1.6em; }
details { margin: .25rem 0 0; } summary { cursor: pointer; font-size: .875rem; color: var(--soft); }
footer { margin-top: 1.5rem; color: var(--soft); font-size: .8125rem; }
@media (max-width: 40rem) {
  main { padding: 1rem .6rem 2rem; } section { padding: .9rem .8rem 1rem; }
  .plot, .axis { margin-left: 2.6rem; } .axis .spare { display: none; }
  .numbers { grid-template-columns: 1fr 1fr; } dd { font-size: 1.2rem; }
  th, td { padding: .35rem .45rem; }
}
@media print { section { break-inside: avoid; } #tip { display: none; } }
)css";

// The page up to its heading. The title is HTML.
inline std::string page_head(const std::string& title, std::string_view more_style = {}) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         title + "</title>\n<style>" + std::string(kPageStyle) + std::string(more_style) +
         "</style>\n</head>\n<body>\n<main>\n";
}

// Shows the titles of columns without a delay. The page is complete without this script.
inline constexpr std::string_view kPageScript = R"js(
(function () {
  var tip = document.createElement('div');
  tip.id = 'tip'; tip.hidden = true; document.body.appendChild(tip);
  function show(event) {
    var hit = event.target.closest ? event.target.closest('.hit') : null;
    if (!hit) { tip.hidden = true; return; }
    var title = hit.querySelector('title');
    if (title) { hit.setAttribute('data-tip', title.textContent); title.remove(); }
    tip.textContent = hit.getAttribute('data-tip');
    tip.hidden = false;
    var x = event.clientX + 14;
    if (x + tip.offsetWidth > innerWidth - 8) { x = event.clientX - tip.offsetWidth - 14; }
    tip.style.left = Math.max(4, x) + 'px';
    tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + 'px';
  }
  document.addEventListener('pointermove', show);
  document.addEventListener('pointerdown', show);
  document.addEventListener('scroll', function () { tip.hidden = true; }, true);
})();
)js";

}  // namespace sluice::replay
