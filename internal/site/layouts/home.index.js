{{- $pages := slice -}}
{{- range site.RegularPages -}}
{{- $headings := slice -}}
{{- range .Fragments.HeadingsMap -}}{{- $headings = $headings | append (dict "id" .ID "text" .Title) -}}{{- end -}}
{{- $pages = $pages | append (dict "title" .LinkTitle "section" .CurrentSection.Title "url" (strings.TrimPrefix "/" .RelPermalink) "description" .Description "headings" $headings "text" (.Plain | htmlUnescape | strings.TrimSpace)) -}}
{{- end -}}
window.pages = {{ $pages | jsonify }};
