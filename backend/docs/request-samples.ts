/**
 * Renders an operation as a `curl` command, and as a program in several languages. The programs are complete, and need
 * only the standard library of their language; the Python program also needs `requests`. The command and the programs
 * read the API key from the environment variable `KEY`.
 */
import { exampleTarget, renderCurl } from './curl.ts'
import type { DocumentedOperation, Example } from './document.ts'

export interface RequestSample {
  /** The name of the language in `markup/highlight.ts`. */
  readonly language: string
  readonly label: string
  readonly code: string
}

interface Call {
  readonly method: string
  readonly url: string
  /** The required headers, except `Authorization` and `Content-Type`. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The body as JSON; undefined if the call has no body. */
  readonly body: string | undefined
}

export function requestSamples(
  operation: DocumentedOperation,
  baseUrl: string,
  example: Example | undefined = operation.body?.examples[0],
): readonly RequestSample[] {
  const call: Call = {
    method: operation.method,
    url: baseUrl + exampleTarget(operation),
    headers: operation.parameters
      .filter(({ location, required }) => location === 'header' && required)
      .map(({ name, example: value }) => [name, String(value)]),
    body: example === undefined ? undefined : JSON.stringify(example.value, null, 2),
  }
  return [
    { language: 'sh', label: 'curl', code: renderCurl(operation, baseUrl, example) },
    { language: 'js', label: 'JavaScript', code: javaScript(call) },
    { language: 'python', label: 'Python', code: python(call) },
    { language: 'php', label: 'PHP', code: php(call) },
    { language: 'ruby', label: 'Ruby', code: ruby(call) },
    { language: 'go', label: 'Go', code: go(call) },
    { language: 'csharp', label: 'C#', code: csharp(call) },
    { language: 'java', label: 'Java', code: java(call) },
  ]
}

function javaScript({ method, url, headers, body }: Call): string {
  const lines = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    '  headers: {',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder belongs to the sample program.
    '    Authorization: `Bearer ${process.env.KEY}`,',
    ...(body === undefined ? [] : ["    'Content-Type': 'application/json',"]),
    ...headers.map(([name, value]) => `    '${name}': '${value}',`),
    '  },',
    ...(body === undefined ? [] : [`  body: JSON.stringify(${indent(body, 2)}),`]),
  ]
  return `const response = await fetch('${url}', {
${lines.join('\n')}
})
console.log(response.status, await response.json())`
}

function python({ method, url, headers, body }: Call): string {
  const headerLines = headers.map(([name, value]) => `        "${name}": "${value}",`)
  const lines = [
    `    "${url}",`,
    '    headers={',
    '        "Authorization": f"Bearer {os.environ[\'KEY\']}",',
    ...headerLines,
    '    },',
    ...(body === undefined ? [] : [`    json=${indent(doubleIndentation(body), 4)},`]),
    '    timeout=30,',
  ]
  return `import os

import requests

response = requests.${method.toLowerCase()}(
${lines.join('\n')}
)
print(response.status_code, response.json())`
}

function php({ method, url, headers, body }: Call): string {
  const headerLines = headers.map(([name, value]) => `        '${name}: ${value}',`)
  const lines = [
    `    'method' => '${method}',`,
    "    'header' => [",
    "        'Authorization: Bearer ' . getenv('KEY'),",
    ...(body === undefined ? [] : ["        'Content-Type: application/json',"]),
    ...headerLines,
    '    ],',
    ...(body === undefined ? [] : [`    'content' => json_encode(${phpArray(body)}),`]),
    "    'ignore_errors' => true,",
  ]
  return `<?php
$context = stream_context_create(['http' => [
${lines.join('\n')}
]]);
$body = file_get_contents('${url}', false, $context);
echo $http_response_header[0], ' ', $body, PHP_EOL;`
}

function ruby({ method, url, headers, body }: Call): string {
  const verb = method.charAt(0) + method.slice(1).toLowerCase()
  const lines = [
    'request["Authorization"] = "Bearer #{ENV.fetch("KEY")}"',
    ...(body === undefined ? [] : ['request["Content-Type"] = "application/json"']),
    ...headers.map(([name, value]) => `request["${name}"] = "${value}"`),
    ...(body === undefined ? [] : [`request.body = JSON.generate(${body})`]),
  ]
  return `require "json"
require "net/http"

uri = URI("${url}")
request = Net::HTTP::${verb}.new(uri)
${lines.join('\n')}

response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https") do |http|
  http.request(request)
end
puts "#{response.code} #{response.body}"`
}

function go({ method, url, headers, body }: Call): string {
  const lines = headers.map(([name, value]) => `\trequest.Header.Set("${name}", "${value}")\n`)
  const contentType =
    body === undefined ? '' : '\trequest.Header.Set("Content-Type", "application/json")\n'
  const bodyReader = body === undefined ? 'nil' : `strings.NewReader(\`${body}\`)`
  return `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"${body === undefined ? '' : '\n\t"strings"'}
)

func main() {
	request, err := http.NewRequest("${method}", "${url}", ${bodyReader})
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
${contentType}${lines.join('')}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(response.StatusCode, string(text))
}`
}

function csharp({ method, url, headers, body }: Call): string {
  const verb = method.charAt(0) + method.slice(1).toLowerCase()
  const lines = headers.map(([name, value]) => `request.Headers.Add("${name}", "${value}");\n`)
  const content =
    body === undefined
      ? ''
      : `request.Content = new StringContent("""
    ${indent(body, 4)}
    """, Encoding.UTF8, "application/json");
`
  return `using System.Net.Http.Headers;
using System.Text;

using var client = new HttpClient();
using var request = new HttpRequestMessage(HttpMethod.${verb}, "${url}");
var key = Environment.GetEnvironmentVariable("KEY");
request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", key);
${lines.join('')}${content}
using var response = await client.SendAsync(request);
Console.WriteLine($"{(int)response.StatusCode} {await response.Content.ReadAsStringAsync()}");`
}

function java({ method, url, headers, body }: Call): string {
  const lines = [
    '            .header("Authorization", "Bearer " + System.getenv("KEY"))',
    ...(body === undefined ? [] : ['            .header("Content-Type", "application/json")']),
    ...headers.map(([name, value]) => `            .header("${name}", "${value}")`),
    body === undefined
      ? `            .${method}()`
      : `            .${method}(HttpRequest.BodyPublishers.ofString("""
                ${indent(body, 16)}
                """))`,
    '            .build();',
  ]
  return `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Example {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("${url}"))
${lines.join('\n')}
        var client = HttpClient.newHttpClient();
        var response = client.send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(response.statusCode() + " " + response.body());
    }
}`
}

/** Indents all lines except the first one. */
function indent(text: string, spaces: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(spaces)}`)
}

/** Doubles the indentation, which is two spaces per level in the JSON. */
function doubleIndentation(json: string): string {
  return json.replace(/^ +/gm, (spaces) => spaces.repeat(2))
}

/** Renders JSON as a PHP array. The strings in the examples contain no braces, and nothing that PHP interprets. */
function phpArray(json: string): string {
  const code = json
    .replace(/^(\s*)"([^"]+)": /gm, "$1'$2' => ")
    .replaceAll('{', '[')
    .replaceAll('}', ']')
  return indent(doubleIndentation(code), 4)
}
