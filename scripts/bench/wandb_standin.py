# SPDX-License-Identifier: Apache-2.0
"""As much of W&B's server as `wandb sync` needs: it keeps the rows of the history that are uploaded."""
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def reply(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if self.headers.get('Content-Encoding') == 'gzip':
            body = gzip.decompress(body)
        server, answer = self.server, {}
        if self.path.endswith('/graphql'):
            call = json.loads(body)
            answer = {'data': self.graphql(call['query'], call.get('variables') or {})}
        elif self.path.endswith('/file_stream'):
            content = json.loads(body)
            for line in content.get('files', {}).get('wandb-history.jsonl', {}).get('content', []):
                server.rows.append(json.loads(line))
            server.is_complete = server.is_complete or content.get('complete', False)
            server.exit_code = content.get('exitcode', server.exit_code)
        elif self.path.startswith('/up/'):
            server.files[self.path.removeprefix('/up/')] = body
        self.reply(answer)

    def graphql(self, query, variables):
        if 'upsertBucket' in query:
            self.server.config = variables.get('config') or self.server.config
            project = {'id': 'cA==', 'name': variables.get('project'), 'entity': {'id': 'ZQ==', 'name': 'somebody'}}
            return {'upsertBucket': {'inserted': True, 'bucket': {
                'id': 'Ynk=', 'name': variables.get('name'), 'displayName': variables.get('displayName'), 'description': None, 'config': '{}',
                'sweepName': None, 'historyLineCount': 0, 'project': project}}}
        if 'createRunFiles' in query:
            files = [{'name': name, 'uploadUrl': f'{self.server.uri}/up/{name}'} for name in variables['files']]
            return {'createRunFiles': {'runID': 'Ynk=', 'uploadHeaders': [], 'files': files}}
        if 'viewer' in query:
            return {'viewer': {'id': 'dg==', 'entity': 'somebody', 'username': 'somebody', 'flags': '{}', 'teams': {'edges': []}}}
        return {}

    do_GET = do_POST = do_PUT = handle_request


class WandbServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.uri = 'http://127.0.0.1:%d' % self.server_address[1]
        self.rows, self.files, self.config, self.exit_code, self.is_complete = [], {}, None, None, False
        threading.Thread(target=self.serve_forever, daemon=True).start()
