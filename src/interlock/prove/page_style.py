"""The style of the page, for light and dark screens."""

STYLE = """
:root{--bg:#f7f8fa;--card:#fff;--ink:#1b2330;--soft:#5b6676;--line:#dfe4ea;--good:#137a43;--bad:#c0262d;
--succeeded:#2f9e6b;--failed:#e0893b;--released:#5b8def;--lost:#b3414f;--cancelled:#9aa4b2;--open:#c9b458}
@media(prefers-color-scheme:dark){:root{--bg:#11151b;--card:#1a2029;--ink:#e6eaf0;--soft:#98a3b3;
--line:#2b3440;
--good:#4cc38a;--bad:#ff6b70}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1160px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:17px;margin:0 0 6px}p{margin:0 0 12px;color:var(--soft)}
code{font:13px ui-monospace,SFMono-Regular,Menlo,monospace}
.verdict{font-size:15px;padding:4px 12px;border-radius:6px;color:#fff;vertical-align:4px;margin-left:8px}
.verdict.good{background:#137a43}.verdict.bad{background:#c0262d}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;
margin-top:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;padding:0;border:0;
background:none}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.tile span,.tile small{display:block;color:var(--soft);font-size:13px}.tile b{display:block;
font-size:24px;line-height:1.3}
.tile.good b{color:var(--good)}.tile.bad b{color:var(--bad)}
.wide{overflow-x:auto}svg{display:block;min-width:720px;width:100%;height:auto}
svg text{font-size:11px;fill:var(--soft)}svg text.lane{fill:var(--ink);font-size:12px}
svg line.tick,svg line.row{stroke:var(--line);stroke-width:1}
rect.succeeded,i.succeeded{fill:var(--succeeded);background:var(--succeeded)}
rect.failed,i.failed{fill:var(--failed);background:var(--failed)}
rect.released,i.released{fill:var(--released);background:var(--released)}
rect.lost,rect.timed_out,i.lost,i.timed_out{fill:var(--lost);background:var(--lost)}
rect.cancelled,i.cancelled{fill:var(--cancelled);background:var(--cancelled)}
rect.open,i.open{fill:var(--open);background:var(--open)}
path.late{stroke:var(--bad);stroke-width:2.4;fill:none}b.late{color:var(--bad)}
g.signal line{stroke:var(--ink);stroke-width:1.4}g.signal circle{fill:var(--ink)}b.signal{color:var(--ink)}
.keys{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--soft);margin-bottom:8px}
.keys i{display:inline-block;width:12px;height:10px;border-radius:2px;margin-right:6px}
.keys b{margin-right:6px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:5px 12px 5px 0;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--soft);font-weight:600;font-size:13px}tbody th{font-weight:600;width:22%}
.n{text-align:right;font-variant-numeric:tabular-nums;padding-right:18px}
td.bar{width:50%}td.bar i{display:block;height:12px;margin-top:5px;border-radius:3px;
background:var(--released)}
.none{color:var(--good);margin:0}
@media print{section{break-inside:avoid}}
"""
