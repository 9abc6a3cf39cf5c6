/**
 * Lines in nine forms: anchors, whose value follows the mark ¦, and lines beside them, which hold nothing secret. `<b>`
 * a key, `<h>` hexadecimal digits, `<d>` digits, `<w>` a password, `<k>` a code,
 * `<u>` an address; `<n>`, `<N>`, `<C>` a name of a service in lower, upper and title case. What is learned from and
 * what is held out have neither template in common.
 */
export interface Form {
  readonly name: string;
  readonly join: string;
  readonly open: string;
  readonly close: string;
  readonly learned: Lines;
  readonly heldOut: Lines;
}
interface Lines {
  readonly anchors: readonly string[];
  readonly beside: readonly string[];
}

/** Services that secrets belong to; ids of gitleaks' rules among them. */
export const services = {
  learned: [
    'adobe',
    'airtable',
    'algolia',
    'asana',
    'bitbucket',
    'cloudflare',
    'datadog',
    'discord',
    'dropbox',
    'github',
    'gitlab',
    'heroku',
    'mailchimp',
    'okta',
    'slack',
    'stripe',
    'telegram',
    'twilio',
  ],
  heldOut: ['confluent', 'fastly', 'grafana', 'linear', 'netlify', 'planetscale', 'sendgrid', 'shopify', 'sentry'],
};

export const forms: readonly Form[] = [
  {
    name: 'env',
    join: '\n',
    open: '',
    close: '\n',
    learned: {
      anchors: [
        '<N>_API_KEY=¦<b>',
        'DB_PASSWORD=¦<w>',
        'export <N>_SECRET=¦<h>',
        '<N>_ACCESS_TOKEN=¦<b>',
        '<N>_CLIENT_SECRET=¦"<h>"',
        'SESSION_KEY=¦<h>',
        'SMTP_PASS=¦<w>',
      ],
      beside: [
        'PORT=¦<d>',
        'LOG_LEVEL=¦debug',
        'NODE_ENV=¦production',
        'TZ=¦Europe/Oslo',
        'MAX_TOKENS=¦256',
        'PASSWORD_MIN_LENGTH=¦12',
        'TOKEN_TTL=¦3600',
        'EDITOR=¦vim',
        '<N>_REGION=¦eu-west-1',
        'PUBLIC_URL=¦<u>',
      ],
    },
    heldOut: {
      anchors: ['SIGNING_KEY=¦<h>', '<N>_BEARER=¦<b>', 'ROOT_PWD=¦<w>'],
      beside: ['WORKERS=¦4', 'LANG=¦en_US.UTF-8', 'KEY_REPEAT_DELAY=¦250', 'CACHE_SECONDS=¦60', 'BUILD_DIR=¦dist'],
    },
  },
  {
    name: 'yaml',
    join: '\n  ',
    open: 'config:\n  ',
    close: '\n',
    learned: {
      anchors: [
        'password:¦ <w>',
        'api_key:¦ <b>',
        'token:¦ "<b>"',
        'client_secret:¦ <h>',
        'private_key:¦ <h>',
        'secretKey:¦ <h>',
        'credentials:¦ <w>',
      ],
      beside: [
        'replicas:¦ 3',
        'image:¦ nginx:1.25',
        'name:¦ <n>',
        'port:¦ <d>',
        'max_tokens:¦ 512',
        'primary_key:¦ id',
        'timeout:¦ 30s',
        'restart:¦ always',
        'password_policy:¦ strict',
        'enabled:¦ true',
      ],
    },
    heldOut: {
      anchors: ['passcode:¦ <d>', 'refresh_token:¦ <b>', 'encryption-key:¦ <h>'],
      beside: ['namespace:¦ default', 'memory:¦ 512Mi', 'sort_key:¦ date', 'token_limit:¦ 4096', 'region:¦ us-east-1'],
    },
  },
  {
    name: 'json',
    join: ', ',
    open: '{',
    close: '}\n',
    learned: {
      anchors: [
        '"api_key":¦ "<b>"',
        '"password":¦ "<w>"',
        '"access_token":¦ "<b>"',
        '"secret":¦ "<h>"',
        '"sessionId":¦ "<h>"',
        '"authToken":¦"<b>"',
        '"pin":¦ <d>',
      ],
      beside: [
        '"name":¦ "<n>"',
        '"max_tokens":¦ 256',
        '"type":¦ "object"',
        '"version":¦ "1.4.2"',
        '"primary_key":¦ true',
        '"count":¦ <d>',
        '"role":¦ "user"',
        '"url":¦"<u>"',
        '"token_count":¦ 17',
        '"verified":¦ false',
      ],
    },
    heldOut: {
      anchors: ['"bearer":¦ "<b>"', '"licenseKey":¦ "<k>"', '"otp":¦ "<d>"'],
      beside: [
        '"status":¦ "active"',
        '"keywords":¦ ["a", "b"]',
        '"total":¦ <d>',
        '"password_expired":¦ false',
        '"model":¦ "small"',
      ],
    },
  },
  {
    name: 'header',
    join: '\n',
    open: 'GET /v1/items HTTP/1.1\n',
    close: '\n\n',
    learned: {
      anchors: [
        'Authorization:¦ Bearer <b>',
        'X-Api-Key:¦ <b>',
        'Cookie:¦ session=<h>',
        'X-Auth-Token:¦ <h>',
        'Proxy-Authorization:¦ Basic <b>',
        'X-<C>-Token:¦ <b>',
      ],
      beside: [
        'Host:¦ api.<n>.com',
        'Content-Type:¦ application/json',
        'Accept:¦ */*',
        'User-Agent:¦ curl/8.4.0',
        'Content-Length:¦ <d>',
        'Cache-Control:¦ no-cache',
        'Connection:¦ keep-alive',
        'Accept-Language:¦ en-US',
      ],
    },
    heldOut: {
      anchors: ['X-CSRF-Token:¦ <h>', 'Set-Cookie:¦ sid=<h>', 'X-Amz-Security-Token:¦ <b>'],
      beside: ['Origin:¦ <u>', 'Accept-Encoding:¦ gzip', 'Server:¦ nginx', 'Retry-After:¦ 30', 'Vary:¦ Accept'],
    },
  },
  {
    name: 'ini',
    join: '\n',
    open: '[<n>]\n',
    close: '\n',
    learned: {
      anchors: [
        'password =¦ <w>',
        'api_key=¦<b>',
        'secret =¦ <h>',
        'auth_token =¦ <b>',
        'db.password =¦ <w>',
        'access_key =¦ <k>',
        'passwd:¦ <w>',
      ],
      beside: [
        'host =¦ localhost',
        'port =¦ <d>',
        'user =¦ admin',
        'timeout=¦30',
        'charset =¦ utf8',
        'key_size =¦ 2048',
        'debug:¦ off',
        'max_password_age =¦ 90',
        'path =¦ /var/lib/<n>',
      ],
    },
    heldOut: {
      anchors: ['passphrase =¦ <w>', 'service_key =¦ <h>', 'admin_login =¦ <w>'],
      beside: ['threads =¦ 8', 'log_file =¦ out.log', 'tokens_per_minute =¦ 600', 'foreign_key =¦ on', 'theme:¦ dark'],
    },
  },
  {
    name: 'code',
    join: '\n',
    open: '',
    close: '\n',
    learned: {
      anchors: [
        "const apiKey =¦ '<b>';",
        'password =¦ "<w>"',
        'let token =¦ "<b>";',
        "client = <C>(api_key=¦'<b>')",
        'String secret =¦ "<h>";',
        'private static final String PASSWORD =¦ "<w>";',
        'SECRET_KEY =¦ "<h>"',
      ],
      beside: [
        'const total =¦ items.length;',
        'for key, value in pairs.items():¦ print(value)',
        'def login(user, password):¦ pass',
        'if token is None:¦ return',
        'keys =¦ sorted(d.keys())',
        'let name =¦ "<n>";',
        'return hash(key) == code;¦',
        'tokens =¦ text.split()',
        'import os;¦',
        'type Password =¦ string;',
        'x =¦ <d>',
      ],
    },
    heldOut: {
      anchors: ['bearerToken :=¦ "<b>"', "config['credentials'] =¦ '<w>'", 'var connectionString =¦ "<u>";'],
      beside: [
        'while (node !== null) node =¦ node.next;',
        'class Session:¦ pass',
        'map.set(key, value);¦',
        'size =¦ len(tokens)',
        'const title =¦ "Report";',
      ],
    },
  },
  {
    name: 'tool',
    join: '\n',
    open: '',
    close: '\n',
    learned: {
      anchors: [
        'call_api(key=¦"<b>")',
        '{"tool": "login", "arguments": {"user": "admin", "password":¦ "<w>"}}',
        '<tool_call>{"name": "fetch", "arguments": {"token":¦ "<b>"}}</tool_call>',
        'get_secret -> {"secret":¦ "<h>"}',
        'Tool result: code=¦<k>',
        '{"function": "unlock", "args": {"pin":¦ "<d>"}}',
        'Observation: the API key is¦ <b>',
      ],
      beside: [
        'search(query=¦"<n> pricing")',
        '{"tool": "weather", "arguments": {"city":¦ "Oslo"}}',
        '<tool_call>{"name": "list", "arguments": {"limit":¦ 20}}</tool_call>',
        'Thought:¦ I should look at the file first.',
        'Observation:¦ 3 results found.',
        'read_file(path=¦"notes.txt")',
        '{"function": "sort", "args": {"key":¦ "name"}}',
        'count_tokens -> {"tokens":¦ <d>}',
      ],
    },
    heldOut: {
      anchors: [
        'authenticate(token=¦"<b>")',
        '{"tool": "vault", "result": {"passphrase":¦ "<w>"}}',
        'Action Input: {"credential":¦ "<w>"}',
      ],
      beside: [
        'Action:¦ search',
        'translate(text=¦"good morning")',
        '{"tool": "calendar", "arguments": {"day":¦ "Monday"}}',
        'resize(width=¦<d>)',
        'Final Answer:¦ there are four of them.',
      ],
    },
  },
  {
    name: 'shell',
    join: '\n',
    open: '$ ',
    close: '\n',
    learned: {
      anchors: [
        'curl https://api.<n>.com/v1?token=¦<h>',
        'mysql -u root --password=¦<w>',
        'login --token¦ <b>',
        'curl https://<n>.io/cb?code=¦<k>',
        'aws configure set aws_secret_access_key¦ <h>',
        'sshpass -p¦ <w> ssh host',
      ],
      beside: [
        'git commit -m¦ "fix"',
        'ls -la /var/log¦',
        'curl https://<n>.com/search?q=¦boots',
        'docker run --name¦ web nginx',
        'grep -rn password¦ src',
        'tail -n¦ 20 out.log',
        'npm run build -- --mode=¦production',
        'ssh-keygen -t¦ ed25519',
      ],
    },
    heldOut: {
      anchors: ['docker login --password¦ <w>', 'curl https://<n>.com/reset?key=¦<h>', 'export PGPASSWORD=¦<w>'],
      beside: [
        'mkdir -p¦ build',
        'curl https://<n>.com/list?page=¦<d>',
        'man passwd¦',
        'kubectl get¦ pods',
        'tar -xzf¦ keys.tar.gz',
      ],
    },
  },
  {
    name: 'prose',
    join: ' ',
    open: '',
    close: ' ',
    learned: {
      anchors: [
        'The password is¦ <w>.',
        'My <n> code is¦ <k>.',
        'She told me the code:¦ <k>.',
        'Remember this number:¦ <d>.',
        'The secret key was¦ <h>.',
        'Your access token is:¦ <b>.',
        'The special magic <C> number is:¦ <d>.',
        'The <C> code is:¦ <k>.',
      ],
      beside: [
        'The password must¦ be changed every month.',
        'He had lost the key¦ to the door.',
        'A token of¦ her affection lay on the table.',
        'The secret of¦ the house was never told.',
        'There is a code of¦ honour among them.',
        'What is the password?¦ Nobody knew.',
        'She said:¦ "Come in."',
        'Remember to¦ lock the door.',
        'Their number was¦ growing every day.',
        'The answer is¦ simple enough.',
        'Note:¦ the shop is closed.',
      ],
    },
    heldOut: {
      anchors: [
        'The combination of the safe is¦ <d>.',
        'Do not forget the PIN:¦ <d>.',
        'The passphrase for <C> was¦ <w>.',
      ],
      beside: [
        'Nobody keeps a secret¦ for long.',
        'The session¦ lasted two hours.',
        'He gave her the key¦ and left.',
        'Which code¦ do you mean?',
        'Keep in mind that¦ the shop closes early.',
        'The problem is¦ that nobody came.',
        'He told me:¦ "Not today."',
      ],
    },
  },
];

/** What no model can tell apart that reads from the left: the sign is there, the value is not. */
export const withoutValue: readonly string[] = [
  'Enter your password:',
  'password:',
  'api_key =',
  '"token":',
  'PIN:',
  'DB_PASSWORD=',
];
