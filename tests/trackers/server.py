# SPDX-License-Identifier: Apache-2.0
"""A stand-in for an MLflow server: the requests that trainer makes, with MLflow's checks, and every kind of trouble."""
import base64
import json
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = re.compile(r'[/\w.\- ]{1,250}')
MOST_METRICS, MOST_PAIRS, MOST_BYTES, MOST_VALUE = 1000, 100, 1000000, 500


class Refused(Exception):
    def __init__(self, status, code, message=''):
        super().__init__(message)
        self.status, self.code = status, code


class Store:
    """What a server keeps, whether or not it runs."""

    def __init__(self, artifacts='mlflow-artifacts:/'):
        self.lock, self.artifacts = threading.Lock(), artifacts
        self.experiments, self.runs, self.files = {}, {}, {}
        self.requests = 0

    def run(self, body):
        if body['run_id'] not in self.runs:
            raise Refused(404, 'RESOURCE_DOES_NOT_EXIST', 'no such run')
        return self.runs[body['run_id']]

    def get_run(self, query):
        return {'run': {'info': self.run({'run_id': query['run_id'][0]})['info'], 'data': {}}}

    def delete_runs(self):
        for run in self.runs.values():
            run['info']['lifecycle_stage'] = 'deleted'

    def active_run(self, body):
        if self.run(body)['info']['lifecycle_stage'] != 'active':
            raise Refused(400, 'INVALID_PARAMETER_VALUE', "The run must be in the 'active' state")
        return self.run(body)

    def experiment_of_name(self, query):
        name = query['experiment_name'][0]
        if name not in self.experiments:
            raise Refused(404, 'RESOURCE_DOES_NOT_EXIST', f"Could not find experiment with name '{name}'")
        return {'experiment': {'experiment_id': self.experiments[name], 'name': name, 'lifecycle_stage': 'active'}}

    def create_experiment(self, body):
        if body['name'] in self.experiments:
            raise Refused(400, 'RESOURCE_ALREADY_EXISTS')
        self.experiments[body['name']] = str(len(self.experiments) + 1)
        return {'experiment_id': self.experiments[body['name']]}

    def search(self, body):
        key = re.fullmatch(r"tags\.`trainer\.run` = '(\w+)'", body['filter'])[1]
        return {'runs': [{'info': run['info']} for run in self.runs.values()
                         if run['tags'].get('trainer.run') == key and run['info']['experiment_id'] in body['experiment_ids']]}

    def create_run(self, body):
        run_id = f'{len(self.runs):032x}'
        info = {'run_id': run_id, 'experiment_id': body['experiment_id'], 'run_name': body['run_name'], 'status': 'RUNNING', 'lifecycle_stage': 'active',
                'artifact_uri': f'{self.artifacts}{body["experiment_id"]}/{run_id}/artifacts'}
        self.runs[run_id] = {'info': info, 'params': {}, 'tags': {tag['key']: tag['value'] for tag in body['tags']}, 'metrics': set()}
        return {'run': {'info': info, 'data': {}}}

    def update(self, body):
        self.active_run(body)['info'].update(body)
        return {'run_info': self.run(body)['info']}

    def log_batch(self, body):
        run, metrics, params, tags = self.active_run(body), body.get('metrics', []), body.get('params', []), body.get('tags', [])
        if len(metrics) > MOST_METRICS or len(params) > MOST_PAIRS or len(tags) > MOST_PAIRS:
            raise Refused(400, 'INVALID_PARAMETER_VALUE', 'too many of them')
        for item in metrics + params + tags:
            if not NAME.fullmatch(item['key']):
                raise Refused(400, 'INVALID_PARAMETER_VALUE', f'a name: {item["key"]}')
        for param in params:
            if len(param['value']) > MOST_VALUE or run['params'].get(param['key'], param['value']) != param['value']:
                raise Refused(400, 'INVALID_PARAMETER_VALUE', f'the value of {param["key"]}')
        for metric in metrics:
            if not (isinstance(metric['value'], (int, float)) or metric['value'] in ('NaN', 'Infinity', '-Infinity')) or metric['timestamp'] < 1:
                raise Refused(400, 'INVALID_PARAMETER_VALUE', f'{metric}')
            # As in MLflow's database, equal ones are one.
            run['metrics'].add((metric['key'], metric['step'], metric['timestamp'], metric['value']))
        run['params'].update({param['key']: param['value'] for param in params})
        run['tags'].update({tag['key']: tag['value'] for tag in tags})
        return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def reply(self, status, answer):
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header('Location', '/elsewhere')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def handle_request(self):
        server, store = self.server, self.server.store
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        with store.lock:
            store.requests += 1
            number = store.requests
        if server.hangs.is_set():
            server.comes_back.wait()
        if server.ended:
            self.close_connection = True
            return
        if server.needs and self.headers.get('Authorization') not in server.needs:
            return self.reply(401, b'<html>who are you?</html>')
        if server.redirects:
            return self.reply(302, b'')
        try:
            if len(body) > MOST_BYTES:
                raise Refused(400, 'INVALID_PARAMETER_VALUE', 'a long request')
            with store.lock:
                answer = self.answer(store, body)
        except Refused as refused:
            return self.reply(refused.status, {'error_code': refused.code, 'message': str(refused)})
        if server.hangs_late.is_set():
            server.comes_back.wait()
        if server.loses and number % server.loses == 0:  # done, but the client never learns it
            self.close_connection = True
            return
        self.reply(200, answer)

    def answer(self, store, body):
        path = urllib.parse.urlsplit(self.path)
        files = '/api/2.0/mlflow-artifacts/artifacts/'
        if self.command == 'PUT' and path.path.startswith(files):
            store.files[urllib.parse.unquote(path.path[len(files):])] = body
            return {}
        call = {('GET', 'experiments/get-by-name'): store.experiment_of_name, ('POST', 'experiments/create'): store.create_experiment,
                ('POST', 'runs/search'): store.search, ('GET', 'runs/get'): store.get_run, ('POST', 'runs/create'): store.create_run, ('POST', 'runs/update'): store.update,
                ('POST', 'runs/log-batch'): store.log_batch}.get((self.command, path.path.removeprefix('/api/2.0/mlflow/')))
        if call is None:
            raise Refused(404, '')
        return call(urllib.parse.parse_qs(path.query) if self.command == 'GET' else json.loads(body))

    do_GET = do_POST = do_PUT = handle_request


class Server(ThreadingHTTPServer):
    """Serves a store until closed. `needs`: the values of Authorization that it accepts; `loses`: every such answer is lost."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, store, port=0, needs=(), loses=0, redirects=False):
        super().__init__(('127.0.0.1', port), Handler)
        self.store, self.needs, self.loses, self.redirects, self.ended = store, needs, loses, redirects, False
        self.hangs, self.hangs_late, self.comes_back = threading.Event(), threading.Event(), threading.Event()
        self.port = self.server_address[1]
        self.uri = f'http://127.0.0.1:{self.port}'
        threading.Thread(target=self.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True).start()

    def hang(self, late=False):
        """Late: it still does what is asked, but does not say so."""
        self.comes_back.clear()
        (self.hangs_late if late else self.hangs).set()

    def come_back(self):
        self.hangs.clear()
        self.hangs_late.clear()
        self.comes_back.set()

    def handle_error(self, *_):
        pass  # a client that has gone

    def close(self):
        self.ended = True
        self.come_back()
        self.shutdown()
        self.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def bearer(token):
    return f'Bearer {token}'


def basic(user, password):
    return 'Basic ' + base64.b64encode(f'{user}:{password}'.encode()).decode()
